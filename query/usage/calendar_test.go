package usage_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/outlayhq/outlay/query/usage"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return t
}

// Days and hours begin where the local clock says, however it is changed.
func TestBucketsFollowTheLocalClock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unit     usage.Unit
		from, to string
		zone     string
		want     []string
	}{
		"utc day":                   {usage.Day, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "UTC", []string{"2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"}},
		"widened to whole days":     {usage.Day, "2026-01-01T23:59:59Z", "2026-01-02T00:00:00.000001Z", "UTC", []string{"2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-03T00:00:00Z"}},
		"half-hour zone":            {usage.Day, "2026-01-01T00:00:00Z", "2026-01-01T18:30:00Z", "Asia/Kolkata", []string{"2026-01-01T00:00:00+05:30", "2026-01-02T00:00:00+05:30"}},
		"half-hour zone by hour":    {usage.Hour, "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", "Asia/Kolkata", []string{"2026-01-01T05:00:00+05:30", "2026-01-01T06:00:00+05:30", "2026-01-01T07:00:00+05:30"}},
		"quarter-hour zone":         {usage.Hour, "2026-01-01T00:20:00Z", "2026-01-01T01:00:00Z", "Asia/Kathmandu", []string{"2026-01-01T06:00:00+05:45", "2026-01-01T07:00:00+05:45"}},
		"day of 25 hours":           {usage.Day, "2026-11-01T12:00:00Z", "2026-11-01T13:00:00Z", "America/New_York", []string{"2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"}},
		"day of 23 hours":           {usage.Day, "2026-03-08T12:00:00Z", "2026-03-08T13:00:00Z", "America/New_York", []string{"2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00"}},
		"hour that comes twice":     {usage.Hour, "2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "America/New_York", []string{"2026-11-01T01:00:00-04:00", "2026-11-01T01:00:00-05:00", "2026-11-01T02:00:00-05:00"}},
		"midnight that comes twice": {usage.Day, "2018-02-17T12:00:00Z", "2018-02-18T12:00:00Z", "America/Sao_Paulo", []string{"2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00", "2018-02-19T00:00:00-03:00"}},
		"midnight that is skipped":  {usage.Day, "2018-11-03T12:00:00Z", "2018-11-04T12:00:00Z", "America/Sao_Paulo", []string{"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}},
		"midnight struck at one":    {usage.Day, "2012-11-03T12:00:00Z", "2012-11-04T12:00:00Z", "America/Havana", []string{"2012-11-03T00:00:00-04:00", "2012-11-04T00:00:00-04:00", "2012-11-05T00:00:00-05:00"}},
		"date that is skipped":      {usage.Day, "2011-12-30T09:00:00Z", "2011-12-30T11:00:00Z", "Pacific/Apia", []string{"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"}},
		"clock set within an hour":  {usage.Hour, "2026-04-04T13:50:00Z", "2026-04-04T14:10:00Z", "Pacific/Chatham", []string{"2026-04-05T03:00:00+13:45", "2026-04-05T03:00:00+12:45"}},
		"clock set by half an hour": {usage.Hour, "2026-04-04T14:20:00Z", "2026-04-04T15:40:00Z", "Australia/Lord_Howe", []string{"2026-04-05T01:00:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T02:00:00+10:30", "2026-04-05T03:00:00+10:30"}},
	} {
		loc, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		bounds, err := usage.Buckets(c.unit, at(c.from), at(c.to), loc)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range bounds {
			got = append(got, b.Format(time.RFC3339))
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// In every time zone since 2000 buckets follow each other without a gap, lie on
// quarter hours, and are the same wherever the range begins.
func TestBucketsOfEveryZone(t *testing.T) {
	t.Parallel()
	for _, zone := range zones(t) {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			continue
		}
		for _, month := range []string{"2000-01-01T00:00:00Z", "2006-11-15T00:00:00Z", "2011-12-01T00:00:00Z", "2026-03-01T00:00:00Z", "2026-09-20T00:00:00Z"} {
			from := at(month)
			for _, unit := range []usage.Unit{usage.Day, usage.Hour} {
				checkBuckets(t, unit, from, from.AddDate(0, 0, 50), loc)
			}
		}
	}
}

func checkBuckets(t *testing.T, unit usage.Unit, from, to time.Time, loc *time.Location) {
	t.Helper()
	bounds, err := usage.Buckets(unit, from, to, loc)
	if err != nil {
		t.Fatal(err)
	}
	if bounds[0].After(from) || bounds[len(bounds)-1].Before(to) || !bounds[len(bounds)-2].Before(to) || !bounds[1].After(from) {
		t.Errorf("%v: %v to %v is covered by %v to %v", loc, from, to, bounds[0], bounds[len(bounds)-1])
	}
	for i, b := range bounds {
		if b.Unix()%900 != 0 {
			t.Errorf("%v: a bucket starts at %v", loc, b)
		}
		if i == 0 {
			continue
		}
		if !b.After(bounds[i-1]) {
			t.Errorf("%v: bucket %v follows %v", loc, b, bounds[i-1])
		}
		// A question about any moment of the bucket gives the bucket.
		middle := bounds[i-1].Add(b.Sub(bounds[i-1]) * 3 / 4)
		again, err := usage.Buckets(unit, middle, middle.Add(time.Microsecond), loc)
		if err != nil || len(again) != 2 || !again[0].Equal(bounds[i-1]) || !again[1].Equal(b) {
			t.Errorf("%v: %v is in %v, want %v to %v", loc, middle, again, bounds[i-1], b)
		}
	}
}

// zones lists the time zones that this machine names, or some odd ones.
func zones(t *testing.T) []string {
	t.Helper()
	const root = "/usr/share/zoneinfo"
	var names []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root+"/")
		if err == nil && !entry.IsDir() && !strings.HasPrefix(name, "right/") && !strings.HasPrefix(name, "posix/") && strings.Contains(name, "/") {
			names = append(names, name)
		}
		return nil
	})
	if err != nil || len(names) < 100 {
		names = []string{"America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "Pacific/Apia", "America/St_Johns", "Asia/Kathmandu", "Pacific/Chatham"}
	}
	return names
}

// More than 10 000 buckets are refused before any work is done for them.
func TestBucketsAreBounded(t *testing.T) {
	t.Parallel()
	from := at("2026-01-01T00:00:00Z")
	if bounds, err := usage.Buckets(usage.Hour, from, from.Add(10_000*time.Hour), time.UTC); err != nil || len(bounds) != 10_001 {
		t.Errorf("10 000 hours: %d bounds, %v", len(bounds), err)
	}
	if _, err := usage.Buckets(usage.Hour, from, from.Add(10_000*time.Hour+1), time.UTC); !errors.Is(err, usage.ErrTooManyRows) {
		t.Errorf("10 001 hours: %v, want ErrTooManyRows", err)
	}
}
