package load

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// generator makes the events of a run. Event number i is the same whenever it is
// asked for, and differs from all others.
type generator struct {
	run    string
	agents int
	keys   bool
}

// newGenerator returns the generator of a run. run is part of every name, so that runs on one account do not mix.
func newGenerator(run string, cfg Config) *generator {
	return &generator{run: run, agents: cfg.Agents, keys: cfg.Keys}
}

// models are real names, so that prices of several kinds take part.
var models = []string{
	"gpt-4o", "gpt-4o-mini", "o3", "claude-3-5-sonnet-20241022", "claude-3-haiku-20240307",
	"gemini-1.5-pro", "command-r-plus",
}

// body returns event i as JSON, of about 320 bytes.
func (g *generator) body(i int) []byte { return g.append(make([]byte, 0, 384), i) }

// batch returns the events as a JSON array.
func (g *generator) batch(events []int) []byte {
	b := make([]byte, 0, 384*len(events))
	for n, i := range events {
		if n == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = g.append(b, i)
	}
	return append(b, ']')
}

// append appends event i. Everything random in it comes from a source that is seeded with i.
func (g *generator) append(b []byte, i int) []byte {
	// The seed is the number of the event, so a retry sends the same tokens and costs the same.
	r := rand.New(rand.NewPCG(uint64(i), 7))
	b = fmt.Appendf(b, `{"agent":"load-%s-%d","model":"%s"`, g.run, i%g.agents, models[r.IntN(len(models))])
	b = append(b, `,"input_tokens":`...)
	b = strconv.AppendInt(b, int64(r.IntN(6000)), 10)
	b = append(b, `,"output_tokens":`...)
	b = strconv.AppendInt(b, int64(r.IntN(900)), 10)
	b = fmt.Appendf(b, `,"latency_ms":%d,"session_id":"conversation-%s-%d"`, 100+r.IntN(5000), g.run, i/10)
	if g.keys {
		b = fmt.Appendf(b, `,"idempotency_key":"%s-%d"`, g.run, i)
	}
	return fmt.Appendf(b, `,"metadata":{"environment":"load","region":"eu-west-1","step":%d,"trace":"%016x%016x"}}`, i%10, r.Uint64(), r.Uint64())
}
