package ingest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/outlayhq/outlay/schema"
)

// metadata reads the client's own object and keeps its text. It refuses what
// PostgreSQL would refuse or would blow up when it writes it out.
func (d *decoder) metadata() error {
	if kind := d.json.PeekKind(); kind != '{' {
		if kind != 'n' {
			d.faults.Add("metadata", "must be an object")
		}
		return d.json.SkipValue()
	}
	if _, err := d.json.ReadToken(); err != nil {
		return err
	}
	start := d.json.InputOffset() - 1
	depth := d.json.StackDepth()
	walk := metadataWalk{}
	for d.json.StackDepth() >= depth {
		token, err := d.json.ReadToken()
		if err != nil {
			return err
		}
		if walk.fault == "" {
			inside, before := d.json.StackIndex(d.json.StackDepth())
			walk.visit(token, inside == '{' && before%2 == 1, d.json.StackDepth()-depth+1)
		}
	}
	text := d.body[start:d.json.InputOffset()]
	if len(text) > schema.MaxMetadataBytes {
		walk.refuse(fmt.Sprintf("must have at most %d bytes", schema.MaxMetadataBytes))
	}
	if walk.fault != "" {
		d.faults.Add("metadata", walk.fault)
		return nil
	}
	d.request.metadata = append([]byte(nil), text...)
	return nil
}

// metadataWalk holds the first fault found and the nodes counted so far. Each value is
// one node, objects and arrays included; the name that it has in an object is a part of it.
type metadataWalk struct {
	nodes int
	fault string
}

func (w *metadataWalk) refuse(fault string) {
	if w.fault == "" {
		w.fault = fault
	}
}

func (w *metadataWalk) visit(t jsontext.Token, isName bool, depth int) {
	switch t.Kind() {
	case '}', ']':
		return
	case '"':
		if message := schema.TextFault(t.String(), schema.MaxMetadataBytes); message != "" {
			w.refuse("every string in it " + message)
		}
	case '0':
		if !plainNumber(t.String()) {
			w.refuse(fmt.Sprintf("every number in it must have at most %d characters and an exponent within ±%d",
				schema.MaxNumberLength, schema.MaxNumberExponent))
		}
	}
	if !isName {
		w.nodes++
	}
	if w.nodes > schema.MaxMetadataNodes {
		w.refuse(fmt.Sprintf("must have at most %d values, objects and arrays inside of it included", schema.MaxMetadataNodes))
	}
	if depth > schema.MaxMetadataDepth {
		w.refuse(fmt.Sprintf("must be nested at most %d deep", schema.MaxMetadataDepth))
	}
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
