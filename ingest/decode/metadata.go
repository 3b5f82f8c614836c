package decode

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/schema"
)

// metadata reads the client's own object and keeps its text. It refuses what PostgreSQL would refuse or would expand
// when it writes it out.
func (d *decoder) metadata() error {
	raw, err := d.json.ReadValue()
	if err != nil || raw.Kind() == 'n' {
		return err
	}
	if raw.Kind() != '{' {
		d.errs.Add("metadata", "must be an object")
		return nil
	}
	if message := metadataError(raw); message != "" {
		d.errs.Add("metadata", message)
		return nil
	}
	a := &d.request.arena
	start := len(a.bytes)
	a.bytes = append(a.bytes, raw...)
	d.request.metadata = a.since(start)
	return nil
}

// metadataError returns what is wrong with an object of valid JSON, or "". Each value is one node, objects and arrays
// included; its name in an object is a part of it.
func metadataError(raw jsontext.Value) string {
	depth, nodes := 0, -1 // The metadata itself is no node.
	for i := 0; i < len(raw); {
		start := i
		switch c := raw[i]; c {
		case '{', '[':
			if depth++; depth > schema.MaxMetadataDepth {
				return fmt.Sprintf("must be nested at most %d deep", schema.MaxMetadataDepth)
			}
			nodes++
			i++
		case '}', ']':
			depth--
			i++
		case ':': // What was counted before it is a name.
			nodes--
			i++
		case '"':
			var plain bool
			i, plain = stringEnd(raw, i)
			nodes++
			if !plain || i-start > schema.MaxMetadataBytes {
				text, _ := jsontext.AppendUnquote(nil, raw[start:i])
				if message := schema.TextFault(string(text), schema.MaxMetadataBytes); message != "" {
					return "every string in it " + message
				}
			}
		case ' ', '\t', '\r', '\n', ',':
			i++
		default: // A number, true, false or null.
			for i < len(raw) && strings.IndexByte(" \t\r\n,}]", raw[i]) < 0 {
				i++
			}
			nodes++
			if isDigit := c == '-' || c >= '0' && c <= '9'; isDigit && !plainNumber(string(raw[start:i])) {
				return fmt.Sprintf("every number in it must have at most %d characters and an exponent within ±%d",
					schema.MaxNumberLength, schema.MaxNumberExponent)
			}
		}
	}
	switch {
	case nodes > schema.MaxMetadataNodes:
		return fmt.Sprintf("must have at most %d values, objects and arrays inside of it included", schema.MaxMetadataNodes)
	case len(raw) > schema.MaxMetadataBytes:
		return fmt.Sprintf("must have at most %d bytes", schema.MaxMetadataBytes)
	}
	return ""
}

// stringEnd returns where the string that starts at i ends, and whether all of it is printable ASCII without escapes.
func stringEnd(raw jsontext.Value, i int) (end int, plain bool) {
	plain = true
	for i++; raw[i] != '"'; i++ {
		if c := raw[i]; c < 0x20 || c > 0x7e || c == '\\' {
			plain = false
			if c == '\\' {
				i++
			}
		}
	}
	return i + 1, plain
}

func plainNumber(literal string) bool {
	if len(literal) > schema.MaxNumberLength {
		return false
	}
	i := strings.IndexAny(literal, "eE")
	if i < 0 {
		return true
	}
	exponent, err := strconv.Atoi(literal[i+1:])
	return err == nil && exponent >= -schema.MaxNumberExponent && exponent <= schema.MaxNumberExponent
}
