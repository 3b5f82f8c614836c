package main

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/outlayhq/outlay/"

// may lists, for each folder, what of our own it may import beside itself. The tiers never import each other: they meet in
// schema, which looks at nobody. What tests run on is no tier.
var may = map[string][]string{
	"cmd":               {"ingest", "processor", "query", "schema", "deploy"},
	"ingest":            {"schema"},
	"processor":         {"schema"},
	"query":             {"schema"},
	"deploy":            {"schema"},
	"schema":            {},
	"schema/schematest": {"schema", "deploy"},
}

// homes lists the only folders that may import a library, so that changing it stays a matter of few files.
var homes = map[string][]string{
	"github.com/gin-gonic/gin":                   {"ingest", "query"},
	"github.com/jackc/pgx":                       {"cmd", "deploy/postgres", "ingest/lease", "ingest/limit", "ingest/replay", "processor", "query", "schema/account", "schema/advisory", "schema/alert", "schema/budget", "schema/job", "schema/migrations", "schema/pgdb", "schema/pricing", "schema/report", "schema/reprice", "schema/schematest", "schema/tariff"},
	"github.com/jackc/tern":                      {"schema/migrations"},
	"github.com/twmb/franz-go/pkg/kgo":           {"cmd", "deploy/broker", "ingest", "processor", "schema/schematest", "schema/topic"},
	"github.com/twmb/franz-go/pkg/kfake":         {"deploy/broker", "schema/schematest"},
	"github.com/go-pdf/fpdf":                     {"processor/report"},
	"go.opentelemetry.io/collector/pdata":        {"ingest/otlp"},
	"github.com/go-fonts":                        {"processor/report"},
	"golang.org/x/image":                         {"processor/report"},
	"github.com/hajimehoshi/bitmapfont":          {"processor/report"},
	"github.com/wneessen/go-mail":                {"processor/mail", "processor/notify"},
	"github.com/golang-jwt/jwt":                  {"query/auth"},
	"github.com/go-jose/go-jose":                 {"query/auth"},
	"github.com/alecthomas/kong":                 {"cmd"},
	"github.com/fergusstrange/embedded-postgres": {"deploy/postgres"},
}

// standardOnly lists the packages that every client of ours could use: they import nothing from outside but
// Unicode's normal forms, which the standard library lacks.
var standardOnly = []string{"schema", "schema/price", "schema/problem"}

const normalForms = "golang.org/x/text/unicode/norm"

// The folders import each other, and libraries, only as drawn in the README.
func TestImportsFollowTheHouse(t *testing.T) {
	t.Parallel()
	for path, imports := range listImports(t) {
		for _, imported := range imports {
			if own, ours := strings.CutPrefix(imported, module); ours {
				if from := folder(path); folder(own) != from && !within(own, may[from]) || within(own, []string{"schema/schematest"}) && from != "schema/schematest" {
					t.Errorf("%s imports %s", path, own)
				}
				continue
			}
			for library, allowed := range homes {
				if within(imported, []string{library}) && !within(path, allowed) {
					t.Errorf("%s imports %s, whose homes are %v", path, imported, allowed)
				}
			}
			if slices.Contains(standardOnly, path) && imported != normalForms && strings.Contains(strings.Split(imported, "/")[0], ".") {
				t.Errorf("%s imports %s and should need the standard library only", path, imported)
			}
		}
	}
}

// folder is the entry of may that a package falls under.
func folder(path string) string {
	if within(path, []string{"schema/schematest"}) {
		return "schema/schematest"
	}
	top, _, _ := strings.Cut(path, "/")
	return top
}

// within reports whether a package is one of the folders or in one of them.
func within(path string, folders []string) bool {
	return slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") })
}

// listImports asks the go command what each package of the module imports outside its tests.
func listImports(t *testing.T) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	all := map[string][]string{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimPrefix(p.ImportPath, module)] = p.Imports
	}
}
