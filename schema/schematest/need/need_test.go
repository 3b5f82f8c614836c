package need_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/outlayhq/outlay/schema/schematest/need"
)

// ended notes how a test was ended, and ends nothing.
type ended struct {
	testing.TB
	how, why string
}

func (e *ended) Helper() {}

func (e *ended) Fatalf(format string, args ...any) {
	e.note("failed", fmt.Sprintf(format, args...))
}

func (e *ended) Skipf(format string, args ...any) {
	e.note("skipped", fmt.Sprintf(format, args...))
}

// note keeps the first, which ends a real test.
func (e *ended) note(how, why string) {
	if e.how == "" {
		e.how, e.why = how, why
	}
}

// What is missing skips a test on anybody's machine, and fails it in CI and where it is asked for.
func TestMissingFailsInCI(t *testing.T) {
	for _, c := range []struct{ ci, require, want string }{{"", "", "skipped"}, {"true", "", "failed"}, {"", "1", "failed"}} {
		t.Setenv("CI", c.ci)
		t.Setenv("OUTLAY_TEST_REQUIRE", c.require)
		var e ended
		if need.Missing(&e, errors.New("no broker")); e.how != c.want {
			t.Errorf("CI=%s OUTLAY_TEST_REQUIRE=%s: %s (%s), want %s", c.ci, c.require, e.how, e.why, c.want)
		}
		var p ended
		if need.Program(&p, "no-such-program"); p.how != c.want {
			t.Errorf("CI=%s OUTLAY_TEST_REQUIRE=%s: %s (%s) without a program, want %s", c.ci, c.require, p.how, p.why, c.want)
		}
	}
}

// A program that is there is found.
func TestProgramIsFound(t *testing.T) {
	t.Parallel()
	if path := need.Program(t, "go"); path == "" {
		t.Error("go has no path")
	}
}
