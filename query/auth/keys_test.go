package auth_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/outlayhq/outlay/query/auth"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
)

// A key file is readable by its owner only, and never overwritten.
func TestCreateKeyFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jwt.pem")
	if err := auth.CreateKeyFile(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	before, _ := os.ReadFile(path)
	if err := auth.CreateKeyFile(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("a second CreateKeyFile = %v, want ErrExist", err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("a second CreateKeyFile changed the file")
	}
}

// While a key is being replaced, tokens of the old and of the new one are good on
// every replica, whichever file it has read.
func TestKeysAreReplacedWithoutAGap(t *testing.T) {
	t.Parallel()
	first, second := keyText(t), keyText(t)
	who := auth.Principal{UserID: schema.NewID(time.Now()), AccountID: schema.NewID(time.Now()), Role: account.Viewer}
	steps := []string{first, first + second, second + first, second}
	for i := 1; i < len(steps); i++ {
		before, after := tokensOf(t, steps[i-1]), tokensOf(t, steps[i])
		for _, pair := range [][2]*auth.Tokens{{before, after}, {after, before}} {
			token, _, err := pair[0].Issue(who)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := pair[1].Verify(token); err != nil {
				t.Errorf("step %d: %v", i, err)
			}
		}
	}
	token, _, err := tokensOf(t, first).Issue(who)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokensOf(t, second).Verify(token); !errors.Is(err, auth.ErrBadToken) {
		t.Errorf("a key that was taken out = %v, want ErrBadToken", err)
	}
}

func keyText(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jwt.pem")
	if err := auth.CreateKeyFile(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func tokensOf(t *testing.T, text string) *auth.Tokens {
	t.Helper()
	keys, err := auth.ParseKeys([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return auth.NewTokens(keys, "outlay", time.Hour, time.Now)
}

// A file without a usable key says what is wrong and shows nothing of it.
func TestParseKeysRefuses(t *testing.T) {
	t.Parallel()
	rsa := "-----BEGIN RSA PRIVATE KEY-----\nc2VjcmV0\n-----END RSA PRIVATE KEY-----\n"
	damaged := "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n"
	for name, text := range map[string]string{
		"empty": "", "no pem": "secret", "rsa": rsa, "damaged": damaged, "good, then damaged": keyText(t) + damaged,
		"public only": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n",
	} {
		_, err := auth.ParseKeys([]byte(text))
		if err == nil || strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want an error that shows no secret", name, err)
		}
	}
	if _, err := auth.LoadKeys(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("LoadKeys of no file = %v, want ErrNotExist", err)
	}
}

// The key id is the thumbprint that RFC 8037 gives for its example key.
func TestKeyIDIsTheThumbprint(t *testing.T) {
	t.Parallel()
	example := "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n-----END PUBLIC KEY-----\n"
	keys, err := auth.ParseKeys([]byte(keyText(t) + example))
	if err != nil {
		t.Fatal(err)
	}
	if got := keys.JWKS().Keys[1].KeyID; got != "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k" {
		t.Errorf("kid = %s", got)
	}
}
