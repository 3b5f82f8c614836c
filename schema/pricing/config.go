package pricing

import (
	"errors"
	"time"
)

// Config says where published prices come from besides the binary.
type Config struct {
	// File and URL name a price catalogue in the format of the built-in one, which holds while both are empty.
	File string `name:"prices-file" placeholder:"FILE" help:"Read the published prices from this file, which has the format of schema/price/catalogue.json, instead of the built-in ones."`
	URL  string `name:"prices-url" placeholder:"URL" help:"Fetch the published prices from this address instead. Off by default: nothing is asked of any other server."`
	// Interval is how often they are read anew.
	Interval time.Duration `name:"prices-interval" default:"1h" help:"How often the prices are read anew from the file or the address. The last good ones hold when that fails."`
	// Approve lists catalogues that are applied whatever they change.
	Approve []string `name:"prices-approve" placeholder:"SHA256" help:"SHA-256 of a price catalogue that is to be applied although it changes a price to or from nothing or by more than ten times. Log and metrics say when one waits for this."`
}

// Validate returns an error that names the flag to mend.
func (c Config) Validate() error {
	switch {
	case c.File != "" && c.URL != "":
		return errors.New("--prices-file and --prices-url exclude each other")
	case (c.File != "" || c.URL != "") && c.Interval < time.Second:
		return errors.New("--prices-interval must be at least 1s")
	}
	return nil
}
