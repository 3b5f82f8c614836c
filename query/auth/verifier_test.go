package auth_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// A token whose signature is remembered is good as long as it was, to the second, and
// stays bad before its time should the clock go back.
func TestRememberedTokensKeepToTheirTime(t *testing.T) {
	t.Parallel()
	const lifetime, leeway = time.Hour, 30 * time.Second
	c := &clock{t: time.Unix(1_800_000_000, 0)}
	keys, err := auth.ParseKeys([]byte(keyText(t)))
	if err != nil {
		t.Fatal(err)
	}
	tokens := auth.NewTokens(keys, "outlay", lifetime, c.now)
	federated, err := auth.NewFederated(nil, "outlay", auth.FederatedDeps{Now: c.now})
	if err != nil {
		t.Fatal(err)
	}
	var outcomes []string
	verifier := auth.NewVerifier(tokens, federated, auth.VerifierDeps{
		Now: c.now, Checked: func(outcome string) { outcomes = append(outcomes, outcome) },
	})
	issued := c.t
	want := auth.Principal{UserID: schema.NewID(issued), AccountID: schema.NewID(issued), Role: account.Viewer, ExpiresAt: issued.Add(lifetime)}
	token, _, err := tokens.Issue(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		at      time.Duration
		outcome string
	}{
		{0, auth.TokenVerified},
		{lifetime - 1, auth.TokenRemembered},
		{lifetime + leeway - 1, auth.TokenRemembered},
		{-leeway, auth.TokenRemembered},
		{-leeway - 1, auth.TokenRefused},
		{0, auth.TokenVerified},
		{lifetime + leeway, auth.TokenRefused},
		{lifetime + leeway, auth.TokenRefused},
		{0, auth.TokenVerified},
	} {
		c.t, outcomes = issued.Add(step.at), nil
		who, err := verifier.Verify(t.Context(), token)
		if diff := cmp.Diff([]string{step.outcome}, outcomes); diff != "" {
			t.Errorf("at %v: %s", step.at, diff)
		}
		if refused := step.outcome == auth.TokenRefused; refused != errors.Is(err, auth.ErrBadToken) {
			t.Errorf("at %v: %v", step.at, err)
		} else if diff := cmp.Diff(want, who); !refused && diff != "" {
			t.Errorf("at %v: %s", step.at, diff)
		}
	}
	// What only looks like it is not it.
	for i := range len(token) {
		other := []byte(token)
		other[i] ^= 1
		if _, err := verifier.Verify(t.Context(), string(other)); !errors.Is(err, auth.ErrBadToken) {
			t.Errorf("with byte %d changed = %v, want ErrBadToken", i, err)
		}
	}
}
