package account_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/schematest"
)

// Users are made, found by address in any case of letters, listed by account, and
// changed only through their own account.
func TestUsers(t *testing.T) {
	t.Parallel()
	store := account.NewStore(schematest.Database(t).Pool, time.Now)
	newAccount := func(name string) schema.ID {
		a, err := store.CreateAccount(t.Context(), name, account.Free)
		if err != nil {
			t.Fatal(err)
		}
		return a.ID
	}
	ours, theirs := newAccount("ours"), newAccount("theirs")
	ada, err := store.CreateUser(t.Context(), ours, "Ada@example.com", "hash", account.Owner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateUser(t.Context(), ours, "ada@EXAMPLE.com", "hash", account.Viewer); !errors.Is(err, account.ErrEmailTaken) {
		t.Errorf("the same address again = %v, want ErrEmailTaken", err)
	}
	adaElsewhere, err := store.CreateUser(t.Context(), theirs, "ada@EXAMPLE.com", "hash", account.Viewer)
	if err != nil {
		t.Fatal(err)
	}
	bob, err := store.CreateUser(t.Context(), theirs, "bob@example.com", "hash", account.Viewer)
	if err != nil {
		t.Fatal(err)
	}
	found, err := store.UsersByEmail(t.Context(), "ADA@example.COM")
	if diff := cmp.Diff([]account.User{ada, adaElsewhere}, found); err != nil || diff != "" {
		t.Errorf("UsersByEmail (-created +found), %v:\n%s", err, diff)
	}
	for _, email := range []string{"nobody@example.com", "", "a\x00@example.com", "\xff"} {
		if users, err := store.UsersByEmail(t.Context(), email); err != nil || len(users) > 0 {
			t.Errorf("UsersByEmail(%q) = %v, %v, want nobody", email, users, err)
		}
	}
	if users, err := store.Users(t.Context(), ours, account.Page{}); err != nil || len(users) != 1 || users[0].ID != ada.ID {
		t.Errorf("Users = %+v, %v", users, err)
	}

	changes := map[string]func(accountID, userID schema.ID) error{
		"SetRole":     func(a, u schema.ID) error { return store.SetRole(t.Context(), a, u, account.Admin) },
		"SetPassword": func(a, u schema.ID) error { return store.SetPassword(t.Context(), a, u, "other") },
		"Disable":     func(a, u schema.ID) error { return store.Disable(t.Context(), a, u) },
	}
	for name, change := range changes {
		if err := change(ours, bob.ID); !errors.Is(err, account.ErrNotFound) {
			t.Errorf("%s of another account's user = %v, want ErrNotFound", name, err)
		}
		if err := change(ours, ada.ID); err != nil {
			t.Errorf("%s = %v", name, err)
		}
	}
	changed, err := store.User(t.Context(), ours, ada.ID)
	if err != nil || changed.Role != account.Admin || changed.PasswordHash != "other" || changed.DisabledAt == nil {
		t.Errorf("after the changes: %+v, %v", changed, err)
	}
	if _, err := store.User(t.Context(), theirs, ada.ID); !errors.Is(err, account.ErrNotFound) {
		t.Errorf("User through another account = %v, want ErrNotFound", err)
	}
	if err := store.Enable(t.Context(), ours, ada.ID); err != nil {
		t.Error(err)
	}
	if enabled, err := store.User(t.Context(), ours, ada.ID); err != nil || enabled.DisabledAt != nil {
		t.Errorf("after Enable: %+v, %v", enabled, err)
	}
}

// Each role may do what the one before it may; what is no role may do nothing.
func TestRoleAllows(t *testing.T) {
	t.Parallel()
	roles := []account.Role{account.Viewer, account.Admin, account.Owner}
	for i, has := range roles {
		for j, need := range roles {
			if got := has.Allows(need); got != (i >= j) {
				t.Errorf("%s allows %s = %v", has, need, got)
			}
		}
		if account.Role("").Allows(has) || account.Role("root").Allows(has) || has.Allows("") || has.Allows("root") {
			t.Errorf("an unknown role meets %s", has)
		}
	}
}

// An address is one mailbox and nothing besides.
func TestEmailFault(t *testing.T) {
	t.Parallel()
	for email, ok := range map[string]bool{
		"ada@example.com": true, "a+b@x.example": true, "": false, "ada": false, "Ada <ada@example.com>": false,
		"ada@example.com, bob@example.com": false, "ada@example.com\n": false, " ada@example.com": false,
	} {
		if fault := account.EmailFault(email); (fault == "") != ok {
			t.Errorf("EmailFault(%q) = %q", email, fault)
		}
	}
}
