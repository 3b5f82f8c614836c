package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/outlayhq/outlay/schema/schematest/need"
)

// metrics are the program's own that rules and dashboards may use. A histogram is also there as …_bucket, …_sum and …_count.
var metrics = map[string]bool{
	"outlay_ingest_requests_total":                         true,
	"outlay_ingest_events_accepted_total":                  true,
	"outlay_ingest_events_refused_total":                   true,
	"outlay_ingest_produce_duration_seconds":               true,
	"outlay_ingest_produce_errors_total":                   true,
	"outlay_ingest_key_cache_age_seconds":                  true,
	"outlay_processor_task_errors_total":                   true,
	"outlay_processor_rewinds_total":                       true,
	"outlay_query_sign_ins_total":                          true,
	"outlay_ingest_produce_buffered_bytes":                 true,
	"outlay_processor_records_total":                       true,
	"outlay_processor_events_stored_total":                 true,
	"outlay_processor_duplicates_total":                    true,
	"outlay_processor_dead_letters_total":                  true,
	"outlay_processor_save_duration_seconds":               true,
	"outlay_processor_save_errors_total":                   true,
	"outlay_processor_lag_records":                         true,
	"outlay_processor_fenced_total":                        true,
	"outlay_processor_holes":                               true,
	"outlay_processor_rollups_refreshed_timestamp_seconds": true,
	"outlay_processor_jobs_total":                          true,
	"outlay_processor_job_oldest_waiting_seconds":          true,
	"outlay_processor_alerts_leading":                      true,
	"outlay_processor_alerts_behind_seconds":               true,
	"outlay_processor_alert_check_timestamp_seconds":       true,
	"outlay_processor_alert_check_duration_seconds":        true,
	"outlay_processor_alert_check_errors_total":            true,
	"outlay_processor_alert_transitions_total":             true,
	"outlay_processor_delivery_tries_total":                true,
	"outlay_processor_delivery_errors_total":               true,
	"outlay_processor_deliveries_pending":                  true,
	"outlay_processor_deliveries_oldest_seconds":           true,
	"outlay_processor_deliveries_overdue_seconds":          true,
	"outlay_query_requests_total":                          true,
	"outlay_query_request_duration_seconds":                true,
	"outlay_processor_intake_difference_records":           true,
}

// Prometheus accepts its configuration and the rules.
func TestPrometheusAcceptsItsConfiguration(t *testing.T) {
	t.Parallel()
	promtoolPasses(t, "check", "config", "prometheus/prometheus.yml")
}

// Each alert fires when it should and is silent while all is well.
func TestAlertsFireWhenTheyShould(t *testing.T) {
	t.Parallel()
	promtoolPasses(t, "test", "rules", "prometheus/rules_test.yml")
	rules, tests := readText(t, "deploy/prometheus/rules.yml"), readText(t, "deploy/prometheus/rules_test.yml")
	for _, m := range regexp.MustCompile(`- alert: (\w+)`).FindAllStringSubmatch(rules, -1) {
		if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(tests) {
			t.Errorf("%s is not tested", m[1])
		}
	}
}

// Every query of a dashboard is PromQL. Grafana's own variables are put in as it would.
func TestPanelsAskPrometheusInPromQL(t *testing.T) {
	t.Parallel()
	rules := "groups:\n- name: panels\n  rules:\n"
	for _, expr := range panelExpressions(t) {
		rules += fmt.Sprintf("  - record: panel\n    expr: %q\n", strings.ReplaceAll(expr, "$__rate_interval", "1m"))
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtoolPasses(t, "check", "rules", "--lint=none", file)
}

// Rules and dashboards ask for metrics that exist, and every metric is looked at by one of them.
func TestRulesAndPanelsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	text := readText(t, "deploy/prometheus/rules.yml") + strings.Join(panelExpressions(t), "\n")
	used := map[string]bool{}
	for _, name := range regexp.MustCompile(`\boutlay_\w+`).FindAllString(text, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if used[name] = true; !metrics[name] {
			t.Errorf("%s is no metric", name)
		}
	}
	for name := range metrics {
		if !used[name] {
			t.Errorf("%s is in no rule and on no panel", name)
		}
	}
}

// Prometheus asks every tier that docker-compose.yml runs.
func TestEveryTierIsScraped(t *testing.T) {
	t.Parallel()
	var config struct {
		ScrapeConfigs []struct {
			JobName string `yaml:"job_name"`
			DNS     []struct {
				Names []string
				Port  int
			} `yaml:"dns_sd_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "deploy/prometheus/prometheus.yml", &config)
	scraped := map[string]bool{}
	for _, s := range config.ScrapeConfigs {
		for _, d := range s.DNS {
			scraped[s.JobName] = d.Port == 9090 && len(d.Names) == 1 && d.Names[0] == s.JobName
		}
	}
	for name, s := range readCompose(t).Services {
		if s.Build.Context != "" && s.Restart != "no" && !scraped[name] {
			t.Errorf("%s is not scraped", name)
		}
	}
}

func promtoolPasses(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(need.Program(t, "promtool"), args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func panelExpressions(t *testing.T) []string {
	t.Helper()
	var exprs []string
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				if q.Datasource.Type == prometheusType {
					exprs = append(exprs, q.Expr)
				}
			}
		}
	}
	return exprs
}
