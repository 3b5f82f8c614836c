package catalogue

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Encode writes the file with one line per model, so that a change of a price is a change of a line.
// The same File always gives the same bytes.
func Encode(f *File) ([]byte, error) {
	if err := f.Validate(); err != nil {
		return nil, fmt.Errorf("check price catalogue: %w", err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\"version\":%d,\"source\":%s,\"providers\":[\n", f.Version, line(f.Source))
	for i, p := range f.Providers {
		head := p
		head.Models = nil
		// The head without its closing brace takes the models in.
		out.WriteString(comma(i) + string(bytes.TrimSuffix(line(head), []byte("}"))))
		if len(p.Models) > 0 {
			out.WriteString(`,"models":[` + "\n")
			for j, m := range p.Models {
				out.WriteString(comma(j) + string(line(m)) + "\n")
			}
			out.WriteString("]")
		}
		out.WriteString("}\n")
	}
	out.WriteString("]}\n")
	return out.Bytes(), nil
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// line is v as JSON on one line. The types of this package always marshal once they are valid.
func line(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("BUG: encode price catalogue: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}
