package report

import (
	"fmt"
	"strings"

	"github.com/outlayhq/outlay/schema/report"
)

const byModel = report.ByModel

// agents draws the table of agents.
func (d *drawing) agents() {
	d.lines("Spend by agent", "Agent", "agent", d.s.ByAgent, maxAgentLines, func(l *Line) string { return label(l.Agent) })
}

// models draws the table of models; one name from two providers has a row for each.
func (d *drawing) models() {
	d.lines("Spend by model", "Model", "model", d.s.ByModel, maxModelLines, modelName)
}

// modelName is how a model is shown: with its provider where that is known.
func modelName(l *Line) string {
	if l.Provider == "" {
		return label(l.Model)
	}
	return label(l.Model) + " · " + label(l.Provider)
}

// lines draws agents or models with bars: the longest is the dearest.
func (d *drawing) lines(heading, head, thing string, lines []Line, most int, name func(*Line) string) {
	d.heading(heading, 4*rowHeight)
	if len(lines) == 0 {
		d.paragraph("Nothing was recorded in this period.", 8.5, grey)
		return
	}
	t := d.table(column{head, 50, left, false}, column{bar: true, width: 22}, column{"Events", 18, right, false},
		column{"Tokens in", 18, right, false}, column{"Tokens out", 18, right, false},
		column{"Cost", 24, right, false}, column{"Share", 14, right, false}, column{"Change", 16, right, false})
	// Lines are sorted by cost, so the first has the longest bar.
	dearest := &lines[0].Cost
	var rest, all Figures
	var restBefore amount
	for i := range lines {
		l := &lines[i]
		all.add(&l.Figures)
		if i >= most {
			rest.add(&l.Figures)
			restBefore.add(&l.Before)
			continue
		}
		t.row(l.Cost.share(dearest), d.cells(name(l), &l.Figures, &l.Before)...)
	}
	if more := len(lines) - most; more > 0 {
		t.row(0, d.cells("and "+plural(more, "more "+thing), &rest, &restBefore)...)
	}
	t.total(d.cells(plural(len(lines), thing), &all, &d.s.Previous.Cost)...)
}

// cells returns the row of an agent or a model, with an empty cell for the bar.
func (d *drawing) cells(name string, f *Figures, before *amount) []string {
	return []string{
		name, "", count(f.Events), f.InputTokens.short(), f.OutputTokens.short(),
		f.Cost.dollars(), percent(f.Cost.share(&d.s.Totals.Cost)), change(before, &f.Cost),
	}
}

// caps draws the caps, and what was refused by caps that are gone.
func (d *drawing) caps() {
	d.heading("Budgets and refused spend", 3*rowHeight)
	if len(d.s.Caps) == 0 {
		d.paragraph("No spending caps are set.", 8.5, grey)
	} else {
		d.capTable()
	}
	var rest Figures            // refused although there is no cap any more
	capped := map[string]bool{} // "" is the account, whose cap is one of every agent.
	for i := range d.s.Caps {
		capped[d.s.Caps[i].Agent] = true
	}
	for i := range d.s.ByAgent {
		if l := &d.s.ByAgent[i]; !capped[l.Agent] && !capped[""] {
			rest.Refused += l.Refused
			rest.RefusedCost.add(&l.RefusedCost)
		}
	}
	if rest.Refused > 0 {
		d.y += 2
		d.paragraph(fmt.Sprintf("%s events worth %s were refused by caps that are not set any more.", count(rest.Refused), rest.RefusedCost.dollars()), 8.5, amber)
	}
}

// capTable draws the caps as they are now, with the spend of the report's period, which may be another one than the cap's.
func (d *drawing) capTable() {
	t := d.table(column{"Cap of", 53, left, false}, column{"Limit", 36, right, false}, column{"Spent in this report", 30, right, false},
		column{"Refused events", 24, right, false}, column{"Refused spend", 24, right, false}, column{"Resets", 13, right, false})
	for i := range d.s.Caps[:min(len(d.s.Caps), maxCapLines)] {
		c := &d.s.Caps[i]
		name := "The whole account"
		if c.Agent != "" {
			name = label(c.Agent)
		}
		limit := c.Limit.dollars() + " in total"
		if c.Period != "total" {
			limit = c.Limit.dollars() + " a " + c.Period
		}
		t.row(0, name, limit, c.Spent.dollars(), count(c.Refused), c.RefusedCost.dollars(), count(c.Resets))
	}
	t.more(len(d.s.Caps)-maxCapLines, "cap")
}

// unpriced draws the models whose events cost nothing only because no price is known.
func (d *drawing) unpriced() {
	d.heading("Models without a known price", 3*rowHeight)
	if len(d.s.Unpriced) == 0 {
		d.paragraph("Every event with tokens had a price.", 8.5, grey)
		return
	}
	d.paragraph("Their events are recorded and counted, and add nothing to the spend until they are priced.", 8.5, amber)
	d.y += 1.5
	t := d.table(column{"Model", 84, left, false}, column{"Events without a price", 36, right, false},
		column{"Input tokens", 30, right, false}, column{"Output tokens", 30, right, false})
	for i := range d.s.Unpriced[:min(len(d.s.Unpriced), maxUnpricedLines)] {
		l := &d.s.Unpriced[i]
		t.row(0, modelName(l), count(l.Unpriced), l.InputTokens.short(), l.OutputTokens.short())
	}
	t.more(len(d.s.Unpriced)-maxUnpricedLines, "model")
}

// prices draws what the events were charged by, which may differ from the prices of today.
func (d *drawing) prices() {
	d.heading("Prices applied", 3*rowHeight)
	if len(d.s.Prices) == 0 {
		d.paragraph("No event of this period has a recorded price.", 8.5, grey)
		return
	}
	t := d.table(column{"Price", 54, left, false}, column{"US dollars a million tokens", 84, left, false},
		column{"Events", 20, right, false}, column{"Cost", 22, right, false})
	for i := range d.s.Prices[:min(len(d.s.Prices), maxPriceLines)] {
		p := &d.s.Prices[i]
		name := label(p.ID)
		if p.ID == "" {
			name = "Cost given by the client"
		}
		t.row(0, name, rates(p.Rates), count(p.Events), p.Cost.dollars())
	}
	t.more(len(d.s.Prices)-maxPriceLines, "price")
	if d.s.PricesUnknown > 0 {
		d.y += 2
		d.paragraph(fmt.Sprintf("The price of %s events is not recorded: only their sums are kept.", count(d.s.PricesUnknown)), 8.5, grey)
	}
}

// rates writes rates in US dollars a million tokens, such as "input 2.5, output 10".
func rates(rates []Rate) string {
	var parts []string
	for _, r := range rates {
		part := strings.ReplaceAll(r.Kind, "_", " ") + " " + r.USDPerMillion
		if r.Tier != baseTier {
			part += " (" + r.Tier + " tokens)"
		}
		parts = append(parts, part)
	}
	text, _ := cleaned(strings.Join(parts, ", "))
	return text
}

// notes explains how to read the figures.
func (d *drawing) notes() {
	d.heading("Notes", 20)
	complete := "Everything that was accepted until the report was generated is in the figures."
	if !d.s.Complete {
		complete = d.s.incomplete(d.loc) + " Events may be missing; ask for the report again later."
	}
	for _, note := range []string{
		complete,
		"Amounts are US dollars. Every event is priced to the nano-dollar when it is received, and sums are exact; what is printed is rounded to the cent, half a cent up, so that printed lines may differ from their printed sum by some cents. The CSV has all decimals.",
		"Refused spend is what events that a cap refused would have cost. It was not spent.",
		fmt.Sprintf("Days are days of the time zone %s. An event counts on the day on which the call happened, a refused one on the day on which it was refused.", d.s.Timezone),
		"A name with letters that this document cannot show has □ in their place, one with emoji has their names in brackets, and both have a code behind them, such as #1a2b3c; the CSV has the whole name next to its code. Long names are cut in the middle; the CSV has them whole.",
	} {
		d.paragraph(note, 8, grey)
		d.y++
	}
}
