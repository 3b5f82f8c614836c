package migrations

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
)

// release is a version as numbers, the most significant first.
type release []int

// parseRelease reads "2.27.2" or "15.18"; what is not a number ends it.
func parseRelease(version string) release {
	var r release
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		r = append(r, n)
	}
	return r
}

func (r release) before(other ...int) bool { return slices.Compare(r, other) < 0 }

// jobsBroken reports whether the server is one of the pairs of releases in which no scheduled job of TimescaleDB runs:
// PostgreSQL changed in 15.20, 16.16, 17.12 and 18.7, and TimescaleDB followed in 2.27.3, 2.28.5 and 2.31.2.
func jobsBroken(s Server) bool {
	postgres, timescale := parseRelease(s.PostgresVersion), parseRelease(s.TimescaleVersion)
	if len(postgres) < 2 || len(timescale) < 2 {
		return false
	}
	firstBroken := map[int]int{15: 20, 16: 16, 17: 12, 18: 7}
	minor, known := firstBroken[postgres[0]]
	if !known || postgres[1] < minor {
		return false
	}
	switch {
	case timescale.before(2, 28):
		return timescale.before(2, 27, 3)
	case timescale.before(2, 29):
		return timescale.before(2, 28, 5)
	default:
		return timescale.before(2, 31, 2)
	}
}

// refreshBroken reports whether TimescaleDB may leave buckets out of a refresh.
func refreshBroken(s Server) bool {
	timescale := parseRelease(s.TimescaleVersion)
	return !timescale.before(2, 28) && timescale.before(2, 29)
}

// warnOfBrokenReleases tells operators about releases that will not do what the schema asks of them. It does not refuse
// them: what is wrong is late or missing sums, which a later release and a refresh mend.
func warnOfBrokenReleases(ctx context.Context, s Server, log *slog.Logger) {
	log = log.With("postgres", s.PostgresVersion, "timescaledb", s.TimescaleVersion)
	if s.Edition == Community && jobsBroken(s) {
		log.WarnContext(ctx, "scheduled jobs of timescaledb do not run with these releases: aggregates, columnstore and retention stand still",
			"instead", "timescaledb 2.27.3, 2.28.5, 2.31.2 or later")
	}
	if s.Edition == Community && refreshBroken(s) {
		log.WarnContext(ctx, "this release of timescaledb may leave buckets out when aggregates are refreshed",
			"instead", "timescaledb 2.29 or later")
	}
}
