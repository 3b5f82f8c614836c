package account_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/outlayhq/outlay/schema/account"
)

// A hash is the PHC string with the documented cost, differs from the last one of
// the same password, and fits that password alone.
func TestHasherHashesAndChecks(t *testing.T) {
	t.Parallel()
	h := account.NewHasher(2)
	first, err := h.Hash(t.Context(), "correct horse battery")
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Hash(t.Context(), "correct horse battery")
	if err != nil || first == second {
		t.Errorf("two hashes are alike (%v): there is no salt", err)
	}
	if !strings.HasPrefix(first, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hash = %s", first)
	}
	for password, want := range map[string]bool{"correct horse battery": true, "correct horse batterz": false, "": false} {
		got, err := h.Check(t.Context(), first, password)
		if err != nil || got != want {
			t.Errorf("Check(%q) = %v, %v, want %v", password, got, err, want)
		}
	}
	if err := h.CheckNone(t.Context(), "anything"); err != nil {
		t.Errorf("CheckNone = %v", err)
	}
}

// A hash of another program with other costs is checked with those.
func TestHasherChecksOtherCosts(t *testing.T) {
	t.Parallel()
	// From the argon2 reference implementation's own tests: 256 KiB, two passes.
	const phc = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	if got, err := account.NewHasher(1).Check(t.Context(), phc, "password"); err != nil || !got {
		t.Errorf("Check = %v, %v, want true", got, err)
	}
}

// A damaged hash is an error, whatever it asks for.
func TestHasherRefusesDamagedHashes(t *testing.T) {
	t.Parallel()
	h := account.NewHasher(1)
	for _, phc := range []string{
		"", "x", "$argon2i$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=16$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=19$m=99999999,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=19$m=256,t=0,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=19$m=256,t=9999,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=19$m=256,t=2,p=0$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$", "$argon2id$v=19$m=256,t=2,p=1$$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4$",
	} {
		if _, err := h.Check(t.Context(), phc, "password"); !errors.Is(err, account.ErrBadHash) {
			t.Errorf("Check(%q) = %v, want ErrBadHash", phc, err)
		}
	}
}

// Those who wait for their turn too long are told so; the others get theirs.
func TestHasherBoundsWhatRunsAtOnce(t *testing.T) {
	t.Parallel()
	h := account.NewHasher(1)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		waiting.Go(func() { _, errs[i] = h.Hash(ctx, "correct horse battery") })
	}
	cancel()
	waiting.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Hash = %v", err)
		}
	}
	if _, err := h.Hash(t.Context(), "correct horse battery"); err != nil {
		t.Errorf("after the rush, Hash = %v", err)
	}
}

// A password is long enough to be one and short enough to be hashed.
func TestPasswordFault(t *testing.T) {
	t.Parallel()
	if fault := account.PasswordFault(""); fault != "is required" {
		t.Errorf("a missing password %s", fault)
	}
	for password, ok := range map[string]bool{
		"739104826": false, "7391048265": true, "üüüüüüüüüü": true, strings.Repeat("x", 200): true,
		strings.Repeat("x", 201): false, "123456789\xff\xff": false,
	} {
		if fault := account.PasswordFault(password); (fault == "") != ok {
			t.Errorf("PasswordFault(%q) = %q", password, fault)
		}
	}
}

// A new password is none of those that are guessed first, in any case of letters or
// width, and neither short nor endless.
func TestCommonPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	for password, ok := range map[string]bool{
		"correct horse battery": true, "tr0ub4dor&3 or so": true, "пароль-подлиннее": true,
		"short": false, strings.Repeat("x", 201): false, "abcdefghi\xff": false,
		"qwertyuiop": false, "QwertyUIOP": false, "1234567890": false, "password123": false, "Password123": false, "１２３４５６７８９０": false,
		"basketball": false, "california": false, "qwertyuiop but longer": true,
	} {
		if fault := account.PasswordFault(password); (fault == "") != ok {
			t.Errorf("PasswordFault(%q) = %q", password, fault)
		}
	}
}

// Users with one e-mail address share a salt, so that one hashing finds whose password
// it is; nobody gets one all the same.
func TestHasherChecksAllAtOnce(t *testing.T) {
	t.Parallel()
	h := account.NewHasher(1)
	var users []account.User
	for _, password := range []string{"the first password", "the second password", "the first password"} {
		phc, err := h.HashAlike(t.Context(), users, password)
		if err != nil {
			t.Fatal(err)
		}
		users = append(users, account.User{Email: password, PasswordHash: phc})
	}
	salt := func(phc string) string { return phc[:strings.LastIndexByte(phc, '$')] }
	if salt(users[0].PasswordHash) != salt(users[1].PasswordHash) || users[0].PasswordHash == users[1].PasswordHash {
		t.Errorf("hashes %q and %q do not share salt and parameters alone", users[0].PasswordHash, users[1].PasswordHash)
	}
	for password, want := range map[string]int{"the first password": 2, "the second password": 1, "another password": 0} {
		if right, err := h.CheckAll(t.Context(), users, password); err != nil || len(right) != want {
			t.Errorf("CheckAll(%q) = %d users, %v, want %d", password, len(right), err, want)
		}
	}
	if right, err := h.CheckAll(t.Context(), nil, "x"); err != nil || right != nil {
		t.Errorf("CheckAll of nobody = %v, %v", right, err)
	}
}
