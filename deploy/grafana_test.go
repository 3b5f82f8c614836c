package deploy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

const (
	postgresType   = "grafana-postgresql-datasource"
	prometheusType = "prometheus"
)

// dashboard is what the tests read of a dashboard's JSON.
type dashboard struct {
	UID        string
	Title      string
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type string
			Query      string
			Datasource dataSourceRef
		}
	}
}

type panel struct {
	ID         int
	Type       string
	Title      string
	Datasource dataSourceRef
	Interval   string
	GridPos    struct{ X, Y, W, H int }
	Targets    []target
}

type target struct {
	RefID      string
	Datasource dataSourceRef
	RawSQL     string
	Format     string
	Expr       string
}

type dataSourceRef struct{ Type, UID string }

// dashboards are all that are provisioned, by file name.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob("grafana/dashboards/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("dashboards: %v, %v", files, err)
	}
	all := map[string]dashboard{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = d
	}
	return all
}

// dataSource is one of grafana/provisioning/datasources.
type dataSource struct {
	Name, UID, Type, URL, User string
	JSONData                   struct {
		Database  string `yaml:"database"`
		Timescale bool   `yaml:"timescaledb"`
	} `yaml:"jsonData"`
	SecureJSONData map[string]string `yaml:"secureJsonData"`
}

func dataSources(t *testing.T) map[string]dataSource {
	t.Helper()
	var file struct{ Datasources []dataSource }
	readYAML(t, "deploy/grafana/provisioning/datasources/outlay.yml", &file)
	byUID := map[string]dataSource{}
	for _, s := range file.Datasources {
		byUID[s.UID] = s
	}
	return byUID
}

// Every query names a data source that is provisioned, with its own type, and every panel has a place of its own.
func TestDashboardsReferToWhatIsProvisioned(t *testing.T) {
	t.Parallel()
	sources := dataSources(t)
	for file, d := range dashboards(t) {
		if d.UID == "" || d.Title == "" {
			t.Errorf("%s: no uid or title", file)
		}
		check := func(where string, ref dataSourceRef) {
			if s, ok := sources[ref.UID]; !ok || s.Type != ref.Type {
				t.Errorf("%s: %s: no data source %+v", file, where, ref)
			}
		}
		ids := map[int]bool{}
		for i, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: id %d twice", file, p.ID)
			}
			ids[p.ID] = true
			for _, other := range d.Panels[:i] {
				if overlap(p, other) {
					t.Errorf("%s: %q lies on %q", file, p.Title, other.Title)
				}
			}
			if p.Type != "row" {
				check(p.Title, p.Datasource)
			}
			for _, q := range p.Targets {
				check(p.Title+" "+q.RefID, q.Datasource)
			}
		}
		for _, v := range d.Templating.List {
			if v.Type == "query" {
				check("variable "+v.Name, v.Datasource)
			}
		}
	}
}

func overlap(a, b panel) bool {
	return a.GridPos.X < b.GridPos.X+b.GridPos.W && b.GridPos.X < a.GridPos.X+a.GridPos.W &&
		a.GridPos.Y < b.GridPos.Y+b.GridPos.H && b.GridPos.Y < a.GridPos.Y+a.GridPos.H
}

// The data source reads with the narrow role, knows TimescaleDB, and has its password from a secret.
func TestGrafanaReadsWithItsOwnRole(t *testing.T) {
	t.Parallel()
	s := dataSources(t)["outlay"]
	if s.Type != postgresType || s.User != "outlay_grafana" || s.JSONData.Database != "outlay" || !s.JSONData.Timescale {
		t.Errorf("data source = %+v", s)
	}
	secret := regexp.MustCompile(`^\$__file\{/run/secrets/(\w+)\}$`).FindStringSubmatch(s.SecureJSONData["password"])
	if secret == nil || !slices.Contains(readCompose(t).Services["grafana"].Secrets, secret[1]) {
		t.Errorf("password %q is no secret that the container has", s.SecureJSONData["password"])
	}
}

// sqlQueries are the queries of every panel and variable that go to the database, by where they stand.
func sqlQueries(t *testing.T) map[string]target {
	t.Helper()
	queries := map[string]target{}
	for file, d := range dashboards(t) {
		for _, v := range d.Templating.List {
			if v.Datasource.Type == postgresType {
				queries[file+": variable "+v.Name] = target{RawSQL: v.Query, Format: "table"}
			}
		}
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				if q.Datasource.Type == postgresType {
					queries[fmt.Sprintf("%s: %s %s", file, p.Title, q.RefID)] = q
				}
			}
		}
	}
	return queries
}
