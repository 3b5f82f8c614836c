package limit

import (
	"errors"

	"github.com/outlayhq/outlay/schema/account"
)

// Config is how many events an account of each plan may send in a minute.
type Config struct {
	Free       int64 `name:"plan-free" default:"60" help:"Events a minute of an account with the plan free."`
	Pro        int64 `name:"plan-pro" default:"6000" help:"Events a minute of an account with the plan pro."`
	Enterprise int64 `name:"plan-enterprise" default:"60000000" help:"Events a minute of an account with the plan enterprise."`
}

// DefaultConfig returns the defaults that the flags have.
func DefaultConfig() Config { return Config{Free: 60, Pro: 6_000, Enterprise: 60_000_000} }

// maxLimit keeps sums of limits far from the largest integer.
const maxLimit = 1e15

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	switch {
	case c.Free < 1 || c.Free > maxLimit:
		return errors.New("--plan-free must be at least 1 and at most 10^15")
	case c.Pro < 1 || c.Pro > maxLimit:
		return errors.New("--plan-pro must be at least 1 and at most 10^15")
	case c.Enterprise < 1 || c.Enterprise > maxLimit:
		return errors.New("--plan-enterprise must be at least 1 and at most 10^15")
	}
	return nil
}

// Of returns the limit of a plan. A plan that this version does not know gets the
// smallest.
func (c Config) Of(p account.Plan) int64 {
	switch p {
	case account.Enterprise:
		return c.Enterprise
	case account.Pro:
		return c.Pro
	case account.Free:
	}
	return c.Free
}
