package report

import (
	"math/big"
	"time"
)

// Millimetres of the daily chart.
const (
	chartHeight = 46.0
	axisWidth   = 20.0
)

// chart draws the cost of each day as a bar.
func (c *canvas) chart(days []Day, loc *time.Location) {
	top := &amount{}
	for i := range days {
		if days[i].Cost.cmp(top) > 0 {
			top = &days[i].Cost
		}
	}
	// The axis is as wide as its labels; the bars share the rest.
	scale := niceScale(top)
	y0 := c.y + 4 + chartHeight
	c.font(regular, 7, grey)
	for tick := int64(0); tick <= scale.ticks; tick++ {
		y := y0 - chartHeight*float64(tick)/float64(scale.ticks)
		c.line(margin+axisWidth, y, margin+width, y, rule)
		c.figure(margin, y+0.9, axisWidth-2, right, scale.label(tick))
	}
	step := (width - axisWidth) / float64(len(days))
	full := scale.top()
	for i := range days {
		h := chartHeight * days[i].Cost.share(full)
		if h > 0 {
			c.fill(margin+axisWidth+step*(float64(i)+0.12), y0-h, step*0.76, h, accent)
		}
	}
	c.dates(days, step, y0, loc)
	c.y = y0 + 6
}

// dates writes as many dates below the bars as there is room for.
func (c *canvas) dates(days []Day, step, y0 float64, loc *time.Location) {
	// room is the width of "31 Dec" with a gap. Of six days a date would be rare: a week is easier to read.
	const room = 13.0
	every := 1
	for step*float64(every) < room {
		every++
	}
	if every > 5 && every < 7 {
		every = 7
	}
	c.font(regular, 7, grey)
	for i := 0; i < len(days); i += every {
		x := min(margin+axisWidth+step*(float64(i)+0.5)-room/2, margin+width-room)
		c.text(x, y0+4, room, centre, days[i].Start.In(loc).Format("2 Jan"))
	}
}

// chartScale is the axis of a chart: ticks steps of so many nano-dollars.
type chartScale struct {
	step  amount
	ticks int64
}

// niceScale returns an axis with two to five steps of 1, 2 or 5 times a power of ten, and at least a cent, that reaches top.
func niceScale(top *amount) chartScale {
	for decade := amountOf(10_000_000); ; decade = decade.times(10) {
		for _, factor := range []int64{1, 2, 5} {
			for s := (chartScale{decade.times(factor), 2}); s.ticks <= 5; s.ticks++ {
				if s.top().cmp(top) >= 0 {
					return s
				}
			}
		}
	}
}

// at returns the amount of a tick, counted from 0.
func (s chartScale) at(tick int64) *amount {
	a := s.step.times(tick)
	return &a
}

func (s chartScale) top() *amount { return s.at(s.ticks) }

// label leaves the cents out where no tick has any.
func (s chartScale) label(tick int64) string {
	text := s.at(tick).dollars()
	if new(big.Int).Mod(s.step.Int(), big.NewInt(1_000_000_000)).Sign() == 0 {
		text = text[:len(text)-len(".00")]
	}
	return text
}
