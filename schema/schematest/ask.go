package schematest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Ask sends a request with a token and returns the body of the answer, which has
// to have this status.
func Ask(t testing.TB, method, url, token, body string, status int) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status {
		t.Fatalf("%s %s = %d, want %d: %v %.500s", method, url, response.StatusCode, status, err, text)
	}
	return text
}
