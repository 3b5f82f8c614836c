package decode

import (
	"github.com/outlayhq/outlay/schema/price"
)

// Check is a model call that an agent thinks of making: the body of POST /v1/budgets/check.
type Check struct {
	Agent, Model, Provider string
	// Usage has the input tokens and the most output tokens. It was given if one of them was.
	Usage price.Usage
}

// CheckFromJSON reads the one check that text holds, as strictly as an event is read.
func CheckFromJSON(text []byte) (Check, error) {
	var r Request
	var maxOutput optionalCount
	errs, err := readObject(text, &r, func(d *decoder, name []byte) error {
		switch string(name) {
		case "agent", "model", "provider", "input_tokens":
			return d.field(name)
		case "max_output_tokens":
			return d.count("max_output_tokens", &maxOutput)
		}
		return d.json.SkipValue()
	})
	if err != nil {
		return Check{}, err
	}
	// Names are validated as those of events, so that what is asked about is what is capped.
	r.checkNames(&errs)
	return Check{
		Agent: r.agent.value, Model: r.model.value, Provider: r.provider.value,
		Usage: price.Usage{Input: r.input.value, Output: maxOutput.value, Given: r.input.given() || maxOutput.given()},
	}, problemOf(errs)
}
