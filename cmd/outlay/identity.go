package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/outlayhq/outlay/query/auth"
)

// identityFlags name the identity providers whose tokens are accepted beside our own.
type identityFlags struct {
	IdentityProviders identityProviders `name:"identity-providers" placeholder:"JSON" help:"Outside identity providers whose tokens are accepted, as a JSON array of objects with issuer, audience, jwks_url, and what their claims stand for. Best in a file that OUTLAY_IDENTITY_PROVIDERS_FILE names."`
}

// identityProviders is the flag's value; query validates the providers themselves.
type identityProviders []auth.Provider

// UnmarshalText reads the JSON. A name with a typo is refused: it could leave out a rule.
func (p *identityProviders) UnmarshalText(text []byte) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode((*[]auth.Provider)(p)); err != nil {
		return fmt.Errorf("not a JSON array of identity providers: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON array of identity providers")
	}
	return nil
}
