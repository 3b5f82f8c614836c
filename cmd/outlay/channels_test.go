package main

import (
	"net/http"
	"testing"
)

// The settings of the query tier decide which channels are accepted.
func TestChannelSettingsReachTheQueryTier(t *testing.T) {
	t.Parallel()
	in := newInstallation(t)
	channels := map[string]string{
		"e-mail": `{"type":"email","to":"a@example.com"}`, "private": `{"type":"webhook","url":"https://127.0.0.1:8443/"}`,
		"plain": `{"type":"webhook","url":"http://93.184.216.34/"}`, "port": `{"type":"webhook","url":"https://93.184.216.34:25/"}`,
	}
	want := func(status int) {
		t.Helper()
		api := signIn(t, in.credentials)
		for name, channel := range channels {
			var answer struct {
				Errors []struct{ Field, Message string }
			}
			if got := api.call(t, http.MethodPut, "/v1/account/channels", `{"channels":[`+channel+`]}`, &answer); got != status {
				t.Errorf("%s: status %d %+v, want %d", name, got, answer, status)
			}
		}
	}
	first := in.startQuery(t)
	want(http.StatusUnprocessableEntity)
	first.kill()
	in.startQuery(t, "--smtp-host=mail.example.com", "--webhook-allow-cidr=127.0.0.0/8", "--webhook-allow-http", "--webhook-allow-port=25")
	want(http.StatusOK)
}
