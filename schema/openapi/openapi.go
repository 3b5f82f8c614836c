// Package openapi holds the OpenAPI 3.1 document: every endpoint of both tiers,
// written before the code. Tests hold the routes and the answers of the tiers to
// it; the query tier serves it.
package openapi

import (
	_ "embed"
	"fmt"

	"github.com/goccy/go-yaml"
)

//go:embed openapi.yaml
var document []byte

// YAML returns the document as it was written.
func YAML() []byte { return document }

// JSON returns the document as JSON.
func JSON() ([]byte, error) {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, fmt.Errorf("convert the openapi document: %w", err)
	}
	return text, nil
}
