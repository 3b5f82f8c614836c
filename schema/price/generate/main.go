// Command generate makes the embedded price catalogue: it fetches the published price data as a package from npm,
// normalises it, lays the overrides kept by hand over it, and writes catalogue.json and the data's licence.
// "make prices" runs it; nothing runs it at build time. The same package and overrides give the same bytes.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

func main() {
	dir := flag.String("dir", "schema/price", "directory of overrides.json, where catalogue.json is written")
	flag.Parse()
	if err := run(context.Background(), *dir); err != nil {
		fmt.Fprintln(os.Stderr, "generate prices:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	published, err := fetch(ctx)
	if err != nil {
		return err
	}
	byHand, err := os.ReadFile(filepath.Join(dir, "overrides.json"))
	if err != nil {
		return err
	}
	file, err := build(published.data, byHand)
	if err != nil {
		return err
	}
	out, err := catalogue.Encode(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "catalogue.json"), out, 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "LICENSE.genai-prices"), published.licence, 0o644); err != nil {
		return err
	}
	fmt.Println(summary(file, len(out)))
	return nil
}

// build makes the catalogue from the published data and the overrides.
func build(published, byHand []byte) (*catalogue.File, error) {
	file, err := normalise(published)
	if err != nil {
		return nil, fmt.Errorf("normalise %s: %w", packageName, err)
	}
	o, err := readOverrides(byHand)
	if err != nil {
		return nil, fmt.Errorf("read overrides: %w", err)
	}
	if err := o.apply(file); err != nil {
		return nil, fmt.Errorf("apply overrides: %w", err)
	}
	complete(file)
	file.Source = fmt.Sprintf("%s %s (MIT) with overrides.json", packageName, packageVersion)
	return file, file.Validate()
}

func summary(file *catalogue.File, size int) string {
	models, unpriced := 0, 0
	for _, p := range file.Providers {
		models += len(p.Models)
		for _, m := range p.Models {
			if len(m.Prices) == 0 {
				unpriced++
			}
		}
	}
	return fmt.Sprintf("%d providers, %d models (%d known but not sold by the token), %d bytes", len(file.Providers), models, unpriced, size)
}
