package schema

import "strings"

const sessionMark = string(SessionPrefix) + "_"

// SessionID returns the canonical form of a client's session id: with "ses_" in
// front, which is left alone where it already stands.
func SessionID(client string) string {
	if strings.HasPrefix(client, sessionMark) {
		return client
	}
	return sessionMark + client
}

// ImplicitSessionID returns the session of an event whose client named none. It
// depends on the event's id alone, so a retry is answered with the same one.
func ImplicitSessionID(event ID) string { return event.Text(SessionPrefix) }
