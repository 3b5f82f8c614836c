// Package share is the page behind a share link: a session and its steps, for
// somebody who has no account. It needs no script and nothing from elsewhere.
package share

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

//go:embed share.html
var pageText string

//go:embed notice.html
var noticeText string

//go:embed share.css
var style []byte

// Style is the page's style sheet, which it expects at /share/style.css.
func Style() []byte { return style }

// Pages writes pages. It is safe for concurrent use.
type Pages struct{ session, notice *template.Template }

// New returns Pages.
func New() (*Pages, error) {
	session, err := template.New("share").Parse(pageText)
	if err != nil {
		return nil, fmt.Errorf("read the page of a shared session: %w", err)
	}
	notice, err := template.New("notice").Parse(noticeText)
	if err != nil {
		return nil, fmt.Errorf("read the page of a dead link: %w", err)
	}
	return &Pages{session, notice}, nil
}

// Notice is what a page says instead of showing a session.
type Notice struct{ Title, Detail string }

// Notice returns the page that says it.
func (p *Pages) Notice(n Notice) ([]byte, error) {
	var out bytes.Buffer
	if err := p.notice.Execute(&out, n); err != nil {
		return nil, fmt.Errorf("write the page of a dead link: %w", err)
	}
	return out.Bytes(), nil
}

// Session is what a page shows.
type Session struct {
	Timeline *usage.Timeline
	// IncludeMetadata shows the metadata of the steps.
	IncludeMetadata bool
	ExpiresAt       usage.Time
	// Next is the address of the next page, or empty.
	Next string
}

// Page returns the page of a session.
func (p *Pages) Page(s *Session) ([]byte, error) {
	var out bytes.Buffer
	if err := p.session.Execute(&out, s.content()); err != nil {
		return nil, fmt.Errorf("write the page of a shared session: %w", err)
	}
	return out.Bytes(), nil
}

// content is the session as the template takes it. All texts are for people: sums with commas, times in UTC.
type content struct {
	Agents, When, Took, Cost  string
	Events, Errors            int64
	Unpriced                  bool
	InputTokens, OutputTokens string
	Steps                     []step
	Next, Expires             string
}

// step is one line of the page.
type step struct {
	Index int64
	// Depth is how far the step is indented, from 0 to maxDepth.
	Depth                             int
	Name, Agent, Model, Error, Offset string
	Failed, Unpriced                  bool
	// BarStart and BarWidth are in barUnits of the session's duration.
	BarStart, BarWidth             int64
	InputTokens, OutputTokens      string
	Latency, Cost, SoFar, Metadata string
}

// content writes the session out. Unpriced is set when any step of this page has no known price.
func (s *Session) content() content {
	t := s.Timeline
	c := content{
		Agents: strings.Join(t.Agents, ", "),
		When:   span(t.StartedAt, t.EndedAt), Took: duration(t.Duration()),
		Cost: t.CostUSD.String(), Events: t.Events, Errors: t.Errors,
		InputTokens: grouped(t.InputTokens.String()), OutputTokens: grouped(t.OutputTokens.String()),
		Next: s.Next,
	}
	if !s.ExpiresAt.IsZero() {
		c.Expires = clock(s.ExpiresAt)
	}
	depths := depths(t.Steps)
	for i := range t.Steps {
		shown := s.step(&t.Steps[i], depths[i])
		c.Steps, c.Unpriced = append(c.Steps, shown), c.Unpriced || shown.Unpriced
	}
	return c
}

// step writes one step out. Of a failed one without a type only that it failed is known.
func (s *Session) step(e *usage.Step, depth int) step {
	shown := step{
		Index: e.Index, Depth: depth, Name: nameOf(e), Agent: e.Agent, Model: valueOf(e.Model),
		Failed: e.Status != "ok", Offset: "+" + duration(time.Duration(e.OffsetMS)*time.Millisecond),
		InputTokens: grouped(strconv.FormatInt(e.InputTokens, 10)), OutputTokens: grouped(strconv.FormatInt(e.OutputTokens, 10)),
		Unpriced: e.CostSource == string(schema.CostUnpriced),
		Cost:     e.CostUSD.String(), SoFar: e.CumulativeCostUSD.String(),
	}
	if shown.Failed {
		shown.Error = "failed"
		if e.ErrorType != nil {
			shown.Error = *e.ErrorType
		}
	}
	var took int64
	if e.LatencyMS != nil {
		took = *e.LatencyMS
		shown.Latency = duration(time.Duration(took) * time.Millisecond)
	}
	shown.BarStart, shown.BarWidth = bar(e.OffsetMS, took, s.Timeline.Duration().Milliseconds())
	if s.IncludeMetadata && len(e.Metadata) > 0 {
		shown.Metadata = indented(e.Metadata)
	}
	return shown
}

// nameOf is what a step is called: its own name, or what it did.
func nameOf(e *usage.Step) string {
	if e.Step != nil {
		return *e.Step
	}
	return "Model call"
}

// valueOf returns the empty text for nil.
func valueOf(name *string) string {
	if name == nil {
		return ""
	}
	return *name
}

// barUnits is the width of the drawing.
const barUnits = 1000

// bar places a step on the line of its session; it can always be seen.
func bar(offset, took, whole int64) (start, width int64) {
	if whole <= 0 {
		return 0, barUnits
	}
	// Six units are the least that can be seen: the end of the line keeps them free.
	start = min(offset*barUnits/whole, barUnits-6)
	return start, min(max(6, took*barUnits/whole), barUnits-start)
}

// maxDepth is how deep steps are indented.
const maxDepth = 5

// depths returns how deep each step lies below those that caused it.
func depths(steps []usage.Step) []int {
	at := make(map[usage.EventID]int, len(steps))
	list := make([]int, len(steps))
	for i := range steps {
		if parent := steps[i].ParentEventID; parent != nil {
			// A parent on another page, or one that was refused, leaves its children at the left.
			if depth, shown := at[*parent]; shown {
				list[i] = min(depth+1, maxDepth)
			}
		}
		at[steps[i].EventID] = list[i]
	}
	return list
}

// span writes two times, the day once if it is the same.
func span(from, to usage.Time) string {
	const day, hour = "2 January 2006", "15:04:05"
	start, end := from.UTC(), to.UTC()
	if start.Format(day) == end.Format(day) {
		return start.Format(day+", "+hour) + " to " + end.Format(hour+" UTC")
	}
	return start.Format(day+", "+hour) + " to " + end.Format(day+", "+hour+" UTC")
}

// grouped writes a whole number with a comma between thousands.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// clock writes a time to the second.
func clock(t usage.Time) string { return t.UTC().Format("2 January 2006 15:04:05 UTC") }

// duration writes a time for people: 640 ms, 2.1 s, 3 min 5 s, 2 h 10 min.
func duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

// indented writes metadata over several lines. It is stored JSON, so it can be read.
func indented(text json.RawMessage) string {
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return string(text)
	}
	return out.String()
}
