package decode

import (
	"fmt"
	"strings"

	"github.com/outlayhq/outlay/schema"
)

// reportedUsage is a provider's own account of the tokens of a call, as the
// client passed it on. Names that mean the same share a field; which were given
// shows whose account it is.
type reportedUsage struct {
	// OpenAI's chat completions, which many others imitate.
	prompt, completion, total optionalCount
	// OpenAI's responses and Anthropic's messages.
	input, output optionalCount
	// Parts of the totals: OpenAI's details and what its imitators have instead.
	cached, written, reasoning optionalCount
	// Anthropic's, outside of input_tokens.
	cacheRead, cacheCreation, shortWrite, hourWrite optionalCount

	google  googleUsage
	bedrock bedrockUsage
	cohere  cohereUsage
}

type googleUsage struct{ prompt, candidates, thoughts, cached, toolUse optionalCount }

type bedrockUsage struct {
	input, output, read, write optionalCount
	hourWrite                  int64 // sum over cacheDetails
}

type cohereUsage struct {
	seen                      bool // one of its objects was there, if only with units that are no tokens
	billedInput, billedOutput optionalCount
	input, output             optionalCount
}

// tokens are counts as Outlay keeps them: caches are parts of input, reasoning is
// a part of output.
type tokens struct {
	input, output, cacheRead, cacheWrite, cacheHour, reasoning int64
}

const unknownUsage = "is not of a known shape: send the usage object of OpenAI (chat completions or responses), Anthropic, " +
	"Google, Cohere or Bedrock as it came, or send input_tokens and output_tokens"

// tokens reads the usage as its provider counts. The fault is "" or completes the
// sentence that starts with "usage".
func (u *reportedUsage) tokens(provider string) (t tokens, fault string) {
	chat := u.prompt.given() || u.completion.given()
	plain := u.input.given() || u.output.given()
	if chat && plain && u.prompt.value == u.input.value && u.completion.value == u.output.value {
		plain = false // Some say the same under both names.
	}
	google := u.google != googleUsage{}
	bedrock := u.bedrock.input.given() || u.bedrock.output.given()
	shapes := 0
	for _, seen := range []bool{chat, plain, google, bedrock, u.cohere.seen} {
		if seen {
			shapes++
		}
	}
	switch {
	case shapes > 1:
		return t, "mixes the shapes of several providers: send the object of one call as it came"
	case chat:
		t = u.openAI(u.prompt.value, u.completion.value)
	case plain:
		t, fault = u.openAIOrAnthropic(provider)
	case google:
		t = u.google.tokens()
	case bedrock:
		t, fault = u.bedrock.tokens()
	case u.cohere.seen:
		t = u.cohere.tokens()
	default:
		return t, unknownUsage
	}
	if fault == "" {
		fault = t.fault()
	}
	return t, fault
}

// openAI counts cached tokens inside of its input and reasoning inside of its
// output. Some imitators count reasoning on top; their total shows it.
func (u *reportedUsage) openAI(input, output int64) tokens {
	t := tokens{input: input, output: output, cacheRead: u.cached.value, cacheWrite: u.written.value, reasoning: u.reasoning.value}
	if !u.cached.given() {
		t.cacheRead = u.cacheRead.value
	}
	if !u.written.given() {
		t.cacheWrite = u.cacheCreation.value
	}
	onTop := u.total.given() && u.total.value == input+output+t.reasoning
	if onTop || t.reasoning > output {
		t.output += t.reasoning
	}
	return t
}

// openAIOrAnthropic distinguishes who counts cached tokens inside of input_tokens
// and who outside. Their names for cached tokens differ; without any the two mean
// the same.
func (u *reportedUsage) openAIOrAnthropic(provider string) (tokens, string) {
	inside := u.cached.value > 0 || u.written.value > 0
	outside := u.cacheRead.value > 0 || u.cacheCreation.value > 0 || u.shortWrite.value > 0 || u.hourWrite.value > 0
	switch {
	case !outside, inside && provider == "openai":
		return u.openAI(u.input.value, u.output.value), ""
	case inside && provider != "anthropic":
		return tokens{}, `has the cached tokens of both OpenAI and Anthropic: name the one that counted in "provider"`
	}
	return u.anthropic()
}

func (u *reportedUsage) anthropic() (tokens, string) {
	written := u.shortWrite.value + u.hourWrite.value
	if u.cacheCreation.given() {
		if written > u.cacheCreation.value {
			return tokens{}, "has more tokens in cache_creation than in cache_creation_input_tokens"
		}
		written = u.cacheCreation.value
	}
	return tokens{
		input: u.input.value + u.cacheRead.value + written, output: u.output.value,
		cacheRead: u.cacheRead.value, cacheWrite: written - u.hourWrite.value, cacheHour: u.hourWrite.value,
		reasoning: u.reasoning.value,
	}, ""
}

// tokens adds what Google counts outside: thoughts are no part of the candidates,
// the prompts of tools no part of the prompt.
func (g googleUsage) tokens() tokens {
	return tokens{
		input: g.prompt.value + g.toolUse.value, output: g.candidates.value + g.thoughts.value,
		cacheRead: g.cached.value, reasoning: g.thoughts.value,
	}
}

func (b bedrockUsage) tokens() (tokens, string) {
	if b.hourWrite > b.write.value {
		return tokens{}, "has more tokens in cacheDetails than in cacheWriteInputTokens"
	}
	return tokens{
		input: b.input.value + b.read.value + b.write.value, output: b.output.value,
		cacheRead: b.read.value, cacheWrite: b.write.value - b.hourWrite, cacheHour: b.hourWrite,
	}, ""
}

// counted reports whether there are tokens at all: searches have none.
func (c cohereUsage) counted() bool {
	return c.billedInput.given() || c.billedOutput.given() || c.input.given() || c.output.given()
}

// tokens are those on the bill; Cohere processes more than it charges for.
func (c cohereUsage) tokens() tokens {
	if c.billedInput.given() || c.billedOutput.given() {
		return tokens{input: c.billedInput.value, output: c.billedOutput.value}
	}
	return tokens{input: c.input.value, output: c.output.value}
}

func (t tokens) fault() string {
	switch {
	case t.input > schema.MaxCount || t.output > schema.MaxCount:
		return fmt.Sprintf("comes to more than %d tokens", schema.MaxCount)
	case t.cacheRead+t.cacheWrite+t.cacheHour > t.input:
		return "has more cached tokens than input tokens"
	case t.reasoning > t.output:
		return "has more reasoning tokens than output tokens"
	}
	return ""
}

// applyUsage puts a provider's usage in place of the token fields. Those may be
// there as well if they say the same.
func (r *Request) applyUsage(errs *schema.Faults) {
	if r.reported == nil {
		return
	}
	t, fault := r.reported.tokens(strings.ToLower(r.provider.value))
	if fault != "" {
		errs.Add("usage", fault)
		return
	}
	if r.reported.cohere.seen && !r.reported.cohere.counted() {
		return
	}
	if r.accounting.value == "exclusive" {
		r.input.value += r.cacheRead.value + r.cacheWrite.value + r.cacheHour.value
	}
	r.accounting = optionalText{}
	replaceCount("input_tokens", &r.input, t.input, errs)
	replaceCount("output_tokens", &r.output, t.output, errs)
	replaceCount("cache_read_tokens", &r.cacheRead, t.cacheRead, errs)
	replaceCount("cache_write_tokens", &r.cacheWrite, t.cacheWrite, errs)
	replaceCount("cache_write_1h_tokens", &r.cacheHour, t.cacheHour, errs)
	replaceCount("reasoning_tokens", &r.reasoning, t.reasoning, errs)
}

func replaceCount(field string, c *optionalCount, reported int64, errs *schema.Faults) {
	if c.given() && c.value != reported {
		errs.Add(c.name, fmt.Sprintf("must not differ from usage, which comes to %d %s; send one of the two", reported, field))
		if !errs.Has("usage") {
			errs.Add("usage", "must not differ from the token fields; send one of the two")
		}
		return
	}
	*c = optionalCount{value: reported, name: "usage"}
}
