package query

import (
	"context"
	"errors"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
	"github.com/outlayhq/outlay/schema/account"
	"github.com/outlayhq/outlay/schema/problem"
)

// userReply is a user of the account, without password.
type userReply struct {
	ID string `json:"id"`
	// Email is what the user signs in with; of a federated user what its token says.
	Email     string       `json:"email"`
	Role      account.Role `json:"role"`
	CreatedAt usage.Time   `json:"created_at"`
	// DisabledAt is null while the user may sign in.
	DisabledAt usage.Time `json:"disabled_at"`
	// Issuer is the identity provider, null for a user with a password.
	Issuer *string `json:"issuer"`
}

func newUserReply(u *account.User) userReply {
	return userReply{
		ID: u.ID.Text(schema.UserPrefix), Email: u.Email, Role: u.Role,
		CreatedAt: usage.Time{Time: u.CreatedAt}, DisabledAt: timeOf(u.DisabledAt), Issuer: nonEmpty(u.Issuer),
	}
}

// listUsers answers a page of the account's users, newest first, disabled ones included.
func (s *Server) listUsers(c *rest.Request) error {
	p := c.Params("limit", "cursor")
	limit, after := p.Limit(), rest.ReadCursor(c, p, (*rest.IDPosition).Valid)
	if err := p.Err(); err != nil {
		return err
	}
	users, err := s.ownAccounts(c).Users(c.Ctx(), c.Who.AccountID, after.Page(limit))
	if err != nil {
		return storeError(err, "user")
	}
	return rest.ReplyPage(c, p, limit, users, newUserReply, func(u *account.User) rest.IDPosition { return rest.IDPosition{ID: u.ID} })
}

// createUserRequest is a user as an owner makes one. All fields are required.
type createUserRequest struct {
	Email    string       `json:"email"`
	Password string       `json:"password"`
	Role     account.Role `json:"role"`
}

// err lists all that is wrong with the request.
func (r *createUserRequest) err() error {
	var faults schema.Faults
	if message := account.EmailFault(r.Email); message != "" {
		faults.Add("email", message)
	}
	if message := account.PasswordFault(r.Password); message != "" {
		faults.Add("password", message)
	}
	if !r.Role.Valid() {
		faults.Add("role", "must be one of viewer, admin, owner")
	}
	return rest.Invalid(faults)
}

// errEmailTaken is about this account only: other accounts' addresses are not given away.
var errEmailTaken = problem.New(problem.Conflict, "Another user of the account has this e-mail address.")

// createUser makes a user of the owner's account.
func (s *Server) createUser(c *rest.Request, request *createUserRequest) error {
	// Hashing takes a tenth of a second and is done before the transaction.
	hash, err := s.hashFor(c.Ctx(), request.Email, request.Password)
	if err != nil {
		return err
	}
	var user account.User
	detail := map[string]any{"email": request.Email, "role": request.Role}
	err = s.administer(c, "user.create", detail, func(ctx context.Context, _ pgx.Tx, store *account.Store) (string, error) {
		user, err = store.CreateUser(ctx, c.Who.AccountID, request.Email, hash, request.Role)
		return user.ID.Text(schema.UserPrefix), err
	})
	if errors.Is(err, account.ErrEmailTaken) {
		return errEmailTaken
	}
	if err != nil {
		return err
	}
	return c.ReplyStatus(http.StatusCreated, newUserReply(&user))
}

// changeUserRequest holds what is to be changed; nil leaves a thing as it is.
type changeUserRequest struct {
	Role *account.Role `json:"role"`
	// Disabled ends all sign-ins of the user when it is true.
	Disabled *bool `json:"disabled"`
	// Password is set without the current one: an owner does this for others.
	Password *string `json:"password"`
}

// err lists all that is wrong with the request.
func (r *changeUserRequest) err() error {
	var faults schema.Faults
	if r.Role != nil && !r.Role.Valid() {
		faults.Add("role", "must be one of viewer, admin, owner")
	}
	if r.Password != nil {
		if message := account.PasswordFault(*r.Password); message != "" {
			faults.Add("password", message)
		}
	}
	return rest.Invalid(faults)
}

// detail is what the audit log shows of the request.
func (r *changeUserRequest) detail() map[string]any {
	detail := map[string]any{}
	if r.Role != nil {
		detail["role"] = *r.Role
	}
	if r.Disabled != nil {
		detail["disabled"] = *r.Disabled
	}
	if r.Password != nil {
		detail["password"] = "changed"
	}
	return detail
}

// errLastOwner keeps an account from being locked for good.
var errLastOwner = problem.New(problem.Conflict, "An account keeps at least one owner who can sign in. Make somebody else an owner first.")

// changeUser changes role, password or standing of a user.
func (s *Server) changeUser(c *rest.Request, id schema.ID) error {
	var request changeUserRequest
	if err := c.Body(&request); err != nil {
		return err
	}
	if err := request.err(); err != nil {
		return err
	}
	// The hash needs the e-mail address of the user, which is read outside of the transaction: addresses do not
	// change.
	hash, err := s.newHash(c, id, request.Password)
	if err != nil {
		return err
	}
	var user account.User
	err = s.administer(c, "user.change", request.detail(), func(ctx context.Context, tx pgx.Tx, store *account.Store) (string, error) {
		user, err = s.applyUserChange(ctx, tx, store, c.Who.AccountID, id, &request, hash)
		return id.Text(schema.UserPrefix), err
	})
	if err != nil {
		return storeError(err, "user")
	}
	// Other replicas get the notice of the database within a second.
	s.sessions.Forget(id)
	return c.Reply(newUserReply(&user))
}

// newHash returns the hash of a user's new password, or nil without one.
func (s *Server) newHash(c *rest.Request, id schema.ID, password *string) (*string, error) {
	if password == nil {
		return nil, nil
	}
	user, err := s.ownAccounts(c).User(c.Ctx(), c.Who.AccountID, id)
	if err != nil {
		return nil, storeError(err, "user")
	}
	hash, err := s.hashFor(c.Ctx(), user.Email, *password)
	return &hash, err
}

// hashFor returns the hash of a new password of a user with this e-mail address.
func (s *Server) hashFor(ctx context.Context, email, password string) (string, error) {
	// Users of other accounts with the same address share a salt: the time of a sign-in must not show how many there are.
	users, err := s.accounts.UsersByEmail(ctx, email)
	if err != nil {
		return "", err
	}
	return s.hasher.HashAlike(ctx, users, password)
}

// applyUserChange makes the changes. A user who is disabled or gets another
// password is signed out everywhere.
func (s *Server) applyUserChange(
	ctx context.Context, tx pgx.Tx, store *account.Store, accountID, id schema.ID, r *changeUserRequest, hash *string,
) (account.User, error) {
	// Two owners who disable each other at the same time must not both succeed.
	if err := store.LockUsers(ctx, accountID); err != nil {
		return account.User{}, err
	}
	if err := r.checkFederated(ctx, store, accountID, id); err != nil {
		return account.User{}, err
	}
	if r.Role != nil {
		if err := store.SetRole(ctx, accountID, id, *r.Role); err != nil {
			return account.User{}, err
		}
	}
	if r.Disabled != nil {
		// Enabling a user brings no sign-in back.
		set := store.Enable
		if *r.Disabled {
			set = store.Disable
		}
		if err := set(ctx, accountID, id); err != nil {
			return account.User{}, err
		}
	}
	if hash != nil {
		if err := store.SetPassword(ctx, accountID, id, *hash); err != nil {
			return account.User{}, err
		}
	}
	// Whoever knew the old password, or may not come in any more, loses every sign-in.
	if hash != nil || r.Disabled != nil && *r.Disabled {
		if err := s.signIns.EndAll(ctx, tx, accountID, id); err != nil {
			return account.User{}, err
		}
	}
	// Last, with the changes in place: an error takes them all back.
	if err := mustKeepOwner(ctx, store, accountID); err != nil {
		return account.User{}, err
	}
	return store.User(ctx, accountID, id)
}

// checkFederated refuses what only an identity provider can change of its users.
func (r *changeUserRequest) checkFederated(ctx context.Context, store *account.Store, accountID, id schema.ID) error {
	user, err := store.User(ctx, accountID, id)
	if err != nil {
		return err
	}
	if user.Outside() && (r.Role != nil || r.Password != nil) {
		return errFederatedUser
	}
	return nil
}

var errFederatedUser = problem.New(problem.Conflict, "An identity provider signs this user in: role and password are changed there. Here the user can only be disabled.")

// mustKeepOwner does not count on owners whom somebody else signs in.
func mustKeepOwner(ctx context.Context, store *account.Store, accountID schema.ID) error {
	users, err := store.Users(ctx, accountID, account.Page{})
	if err != nil {
		return err
	}
	for i := range users {
		if users[i].Role == account.Owner && users[i].DisabledAt == nil && !users[i].Outside() {
			return nil
		}
	}
	return errLastOwner
}
