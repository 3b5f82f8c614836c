package alerting

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/outlayhq/outlay/schema/alert"
)

// A fleet as it might be: fifty agents for ninety days, each with a rhythm of the day
// and the week, chance in the number of calls, in their prices, and from hour to hour.
const (
	fleetAgents = 50
	fleetDays   = 90
	fleetStep   = 5 * time.Minute
	fleetSlots  = fleetDays * 24 * 12
	// quietDays pass before anything is planted.
	quietDays = 28
)

var fleetStart = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC) // a Monday

// planted is an anomaly and where it is.
type planted struct {
	what     string
	agent    int
	from, to time.Time
	// calls and price are what the usual ones are multiplied with.
	calls, price float64
	found        string
}

type fleet struct {
	events, cost [fleetAgents][]float64
	planted      []*planted
}

func newFleet(seed uint64) *fleet {
	r := rand.New(rand.NewPCG(seed, 90))
	f := &fleet{planted: plant(r)}
	for a := range fleetAgents {
		f.grow(r, a)
	}
	return f
}

// plant chooses twelve anomalies of different agents.
func plant(r *rand.Rand) []*planted {
	kinds := []struct {
		what         string
		n            int
		lasts        time.Duration
		calls, price float64
	}{
		{"spike: the same calls cost four times as much", 3, 2 * time.Hour, 1, 4},
		{"spike: four times the calls", 2, 2 * time.Hour, 4, 1},
		{"drip: prices creep up by 60 percent", 3, 3 * 24 * time.Hour, 1, 1.6},
		{"loop: twelve times the calls at half the price", 2, time.Hour, 12, 0.5},
		{"silence", 2, 12 * time.Hour, 0, 1},
	}
	agents := r.Perm(fleetAgents)
	var list []*planted
	for _, k := range kinds {
		for range k.n {
			// By day, when the agent is at work.
			day := quietDays + r.IntN(fleetDays-quietDays-4)
			for fleetStart.AddDate(0, 0, day).Weekday() == time.Saturday || fleetStart.AddDate(0, 0, day).Weekday() == time.Sunday {
				day--
			}
			from := fleetStart.AddDate(0, 0, day).Add(9*time.Hour + time.Duration(r.IntN(48))*fleetStep)
			list = append(list, &planted{what: k.what, agent: agents[len(list)], from: from, to: from.Add(k.lasts), calls: k.calls, price: k.price})
		}
	}
	return list
}

// grow fills in what an agent did.
func (f *fleet) grow(r *rand.Rand, a int) {
	perHour := 60 * math.Exp(0.9*r.NormFloat64())
	price := 2e6 * math.Exp(r.NormFloat64()) // nano-dollars a call
	kind := r.IntN(3)
	f.events[a], f.cost[a] = make([]float64, fleetSlots), make([]float64, fleetSlots)
	wobble := 0.0
	for i := range fleetSlots {
		at := fleetStart.Add(time.Duration(i) * fleetStep)
		if i%12 == 0 {
			wobble = 0.5*wobble + 0.07*r.NormFloat64()
		}
		rate, each := perHour/12*rhythm(kind, at)*math.Exp(wobble), price
		for _, p := range f.planted {
			if p.agent == a && !at.Before(p.from) && at.Before(p.to) {
				rate, each = rate*p.calls, each*p.price
			}
		}
		n := poisson(r, rate)
		f.events[a][i] = n
		// The price of a call varies as a log-normal with sigma 0.6 does: by two thirds
		// of itself.
		f.cost[a][i] = max(0, math.Round(n*each+0.66*each*math.Sqrt(n)*r.NormFloat64()))
	}
}

// rhythm is how busy an agent of a kind is: in office hours, always, or at night.
func rhythm(kind int, at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60
	weekend := at.Weekday() == time.Saturday || at.Weekday() == time.Sunday
	switch kind {
	case 0:
		if weekend {
			return 0.15
		}
		return 0.15 + 1.5*math.Exp(-math.Pow((hour-13.5)/4, 4))
	case 1:
		return 1 + 0.3*math.Sin(2*math.Pi*(hour-9)/24)
	}
	if hour < 6 {
		return 2.5
	}
	if weekend {
		return 0.4
	}
	return 0.6
}

func poisson(r *rand.Rand, mean float64) float64 {
	if mean > 50 {
		return max(0, math.Round(mean+math.Sqrt(mean)*r.NormFloat64()))
	}
	limit, product, n := math.Exp(-mean), 1.0, -1.0
	for product > limit || n < 0 {
		product *= r.Float64()
		n++
	}
	return n
}

// run checks a rule for one agent through all the days and returns when it fired and
// until when.
func (f *fleet) run(r *alert.Rule, a int, step time.Duration) (spans [][2]time.Time) {
	past, was := hours{}, ruleIncidents{open: map[string]openIncident{}, ended: map[string]time.Time{}}
	var began time.Time
	for at := fleetStart.Add(step); at.Before(fleetStart.AddDate(0, 0, fleetDays)); at = at.Add(step) {
		from := r.Window.Start(at)
		if at.Minute() == 0 {
			hour := at.Add(-time.Hour)
			past[hour.Unix()] = f.tally(r.Metric, a, hour, at)
		}
		if from.Before(fleetStart) {
			continue
		}
		t := f.tally(r.Metric, a, from, at)
		read := measurement{scope: "a", value: t.num, known: true, events: t.events}
		_, firing := was.open["a"]
		d := decide(r, []evaluation{evaluateAnomaly(r, read, past, from, at, firing)}, was, at, true)
		if len(d.fire) > 0 {
			was.open["a"], began = openIncident{peak: t.num}, at
		}
		if len(d.resolve) > 0 {
			delete(was.open, "a")
			was.ended["a"] = at
			spans = append(spans, [2]time.Time{began, at})
		}
	}
	if len(was.open) > 0 {
		spans = append(spans, [2]time.Time{began, fleetStart.AddDate(0, 0, fleetDays)})
	}
	return spans
}

func (f *fleet) tally(m alert.Metric, a int, from, to time.Time) tally {
	var t tally
	for i := int(from.Sub(fleetStart) / fleetStep); i < int(to.Sub(fleetStart)/fleetStep); i++ {
		t.events += f.events[a][i]
		t.num += f.cost[a][i]
	}
	if m == alert.Events {
		t.num = t.events
	}
	return t
}

// fleetRules are what the documentation recommends to begin with.
func fleetRules() []alert.Rule {
	sensitivity := float64(alert.DefaultSensitivity)
	rule := func(m alert.Metric, w alert.Window) alert.Rule {
		return alert.Rule{Metric: m, Window: w, Condition: alert.Anomaly, Sensitivity: &sensitivity, Cooldown: time.Hour}
	}
	return []alert.Rule{rule(alert.Cost, alert.Hour), rule(alert.Events, alert.Hour), rule(alert.Cost, alert.Day), rule(alert.Events, alert.Day)}
}

// watchFleet runs the rules over a fleet and returns how many of the planted anomalies
// were found and how many alarms had no cause.
func watchFleet(f *fleet, log func(string, ...any)) (found, falseAlarms int) {
	for _, r := range fleetRules() {
		step := 15 * time.Minute
		if r.Window == alert.Day {
			step = time.Hour
		}
		for a := range fleetAgents {
			for _, s := range f.run(&r, a, step) {
				if p := f.cause(a, s, r.Window); p != nil {
					if p.found == "" {
						p.found = fmt.Sprintf("%s %s after %v", r.Metric, r.Window, s[0].Sub(p.from))
					}
					continue
				}
				falseAlarms++
				log("false alarm: %s %s, agent %d, %s to %s", r.Metric, r.Window, a, s[0].Format("Mon 2006-01-02 15:04"), s[1].Format("15:04"))
			}
		}
	}
	for _, p := range f.planted {
		log("%-50s agent %2d %s: %s", p.what, p.agent, p.from.Format("Mon 2006-01-02 15:04"), p.found)
		if p.found != "" {
			found++
		}
	}
	return found, falseAlarms
}

// cause returns the planted anomaly that an alarm began during, or in the window after.
func (f *fleet) cause(a int, s [2]time.Time, w alert.Window) *planted {
	i := slices.IndexFunc(f.planted, func(p *planted) bool {
		return p.agent == a && !s[0].Before(p.from) && s[0].Before(p.to.Add(w.Duration()))
	})
	if i < 0 {
		return nil
	}
	return f.planted[i]
}

// Of twelve anomalies planted in ninety days of a fleet at least eleven are found, and
// in a week fifty agents together raise at most one alarm without a cause.
// OUTLAY_SEEDS sets how many fleets.
func TestAnomaliesOfAFleetAreFound(t *testing.T) {
	t.Parallel()
	seeds, err := strconv.Atoi(os.Getenv("OUTLAY_SEEDS"))
	if err != nil {
		seeds = 1
	}
	weeks := float64(fleetDays-minWeeks*7) / 7
	for seed := range seeds {
		f := newFleet(uint64(seed))
		found, falseAlarms := watchFleet(f, t.Logf)
		t.Logf("fleet %d: %d of %d found, %d false alarms, %.2f a week", seed, found, len(f.planted), falseAlarms, float64(falseAlarms)/weeks)
		if found < 11 || float64(falseAlarms)/weeks > 1 {
			t.Errorf("fleet %d: want at least 11 found and at most one false alarm a week", seed)
		}
	}
}
