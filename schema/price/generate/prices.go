package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/outlayhq/outlay/schema/price/catalogue"
)

type (
	publishedPrice struct {
		Constraint publishedConstraint        `json:"constraint"`
		Prices     map[string]json.RawMessage `json:"prices"`
	}
	publishedConstraint struct {
		Type      string `json:"type"`
		StartDate string `json:"start_date"`
		StartTime string `json:"start_time"`
		EndTime   string `json:"end_time"`
	}
	publishedTiers struct {
		Base  json.Number `json:"base"`
		Tiers []struct {
			Start int64       `json:"start"`
			Price json.Number `json:"price"`
		} `json:"tiers"`
	}
)

// kinds are the published prices that are per token and whose tokens an event counts.
var kinds = map[string]func(*catalogue.Rates) **catalogue.Rate{
	"input_mtok":            func(r *catalogue.Rates) **catalogue.Rate { return &r.Input },
	"output_mtok":           func(r *catalogue.Rates) **catalogue.Rate { return &r.Output },
	"cache_read_mtok":       func(r *catalogue.Rates) **catalogue.Rate { return &r.CacheRead },
	"cache_write_mtok":      func(r *catalogue.Rates) **catalogue.Rate { return &r.CacheWrite },
	"cache_write_1h_mtok":   func(r *catalogue.Rates) **catalogue.Rate { return &r.CacheWrite1h },
	"output_reasoning_mtok": func(r *catalogue.Rates) **catalogue.Rate { return &r.Reasoning },
}

// ignored are prices of things an event does not count: other modalities, tools, pages, hours, requests.
var ignored = []string{
	"web_searches_kcount", "storage_searches_kcount", "requests_kcount", "input_text_messages_kcount",
	"input_audio_mtok", "output_audio_mtok", "cache_audio_read_mtok", "input_image_mtok", "output_image_mtok",
	"cache_image_read_mtok", "input_video_mtok", "output_video_mtok", "output_citation_mtok",
	"audio_hours", "input_audio_hours", "input_document_kpages", "input_annotated_document_kpages",
}

// newPrices reads the price history of a model; none when nothing in it is per token.
func newPrices(data json.RawMessage) ([]catalogue.Price, error) {
	var rows []publishedPrice
	if bytes.HasPrefix(data, []byte("[")) {
		if err := strict(data, &rows); err != nil {
			return nil, err
		}
	} else {
		rows = make([]publishedPrice, 1)
		if err := json.Unmarshal(data, &rows[0].Prices); err != nil {
			return nil, err
		}
	}
	var out []catalogue.Price
	known := false
	for _, row := range rows {
		price, err := newPrice(row)
		if err != nil {
			return nil, err
		}
		if price.Daily != nil && len(out) > 0 {
			// A daily window belongs to the prices it is listed under: the data cannot give it a date itself.
			price.From = out[len(out)-1].From
		}
		known = known || !price.IsZero()
		out = append(out, price)
	}
	if !known {
		return nil, nil
	}
	return out, nil
}

func newPrice(row publishedPrice) (catalogue.Price, error) {
	var out catalogue.Price
	var err error
	switch c := row.Constraint; c.Type {
	case "":
	case "start_date":
		out.From.Time, err = time.Parse(time.DateOnly, c.StartDate)
	case "time_of_date":
		out.Daily, err = newWindow(c)
	default:
		err = fmt.Errorf("constraint %q is not known", c.Type)
	}
	if err != nil {
		return out, err
	}
	tiers := map[string]publishedTiers{}
	var starts []int64
	for key, value := range row.Prices {
		if slices.Contains(ignored, key) {
			continue
		}
		t, err := newTiers(value)
		if kinds[key] == nil || err != nil {
			return out, fmt.Errorf("price %s: not known, or not a price: %w", key, err)
		}
		tiers[key] = t
		for _, step := range t.Tiers {
			starts = append(starts, step.Start)
		}
	}
	if out.Rates, err = ratesAbove(tiers, 0); err != nil {
		return out, err
	}
	slices.Sort(starts)
	for _, start := range slices.Compact(starts) {
		step := catalogue.Step{Tokens: start}
		if step.Rates, err = ratesAbove(tiers, start); err != nil {
			return out, err
		}
		out.Above = append(out.Above, step)
	}
	return out, nil
}

// newTiers reads a price, which is a number or a number with long-context steps.
func newTiers(value json.RawMessage) (t publishedTiers, err error) {
	if bytes.HasPrefix(value, []byte("{")) {
		return t, strict(value, &t)
	}
	return t, json.Unmarshal(value, &t.Base)
}

// ratesAbove returns the rates of all kinds for calls of more than start tokens.
func ratesAbove(tiers map[string]publishedTiers, start int64) (out catalogue.Rates, err error) {
	for key, t := range tiers {
		number := t.Base
		for _, step := range t.Tiers {
			if step.Start <= start {
				number = step.Price
			}
		}
		if *kinds[key](&out), err = newRate(number); err != nil {
			return out, err
		}
	}
	return out, nil
}

// newWindow reads times like "16:30:00Z".
func newWindow(c publishedConstraint) (*catalogue.Window, error) {
	w := new(catalogue.Window)
	for text, to := range map[string]*catalogue.Clock{c.StartTime: &w.Start, c.EndTime: &w.End} {
		minute, ok := strings.CutSuffix(text, ":00Z")
		if !ok {
			return nil, fmt.Errorf("time %q is not a full minute in UTC", text)
		}
		if err := to.UnmarshalText([]byte(minute)); err != nil {
			return nil, err
		}
	}
	return w, nil
}
