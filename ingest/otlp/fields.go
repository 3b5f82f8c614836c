package otlp

import "google.golang.org/protobuf/encoding/protowire"

// part is a piece of a text, from one byte up to another.
type part struct{ from, to int }

func (p part) of(text []byte) []byte { return text[p.from:p.to] }

// wireFields walks over the fields of a message. It moves numbers, not pointers,
// which would each be a matter for the garbage collector while it runs.
type wireFields struct {
	body   []byte // in which the message is a part
	rest   part
	number protowire.Number
	// Of the field that next has found: its type and what it holds.
	kind  protowire.Type
	bytes part
	bits  uint64
	err   error
}

func fieldsOf(body []byte, message part) wireFields { return wireFields{body: body, rest: message} }

// next reports whether there is another field, and no error so far.
func (f *wireFields) next() bool {
	if f.rest.from == f.rest.to || f.err != nil {
		return false
	}
	number, kind, n := protowire.ConsumeTag(f.rest.of(f.body))
	if n < 0 {
		f.err = ErrMalformed
		return false
	}
	f.number, f.kind = number, kind
	f.rest.from += n
	if n = f.value(f.rest.of(f.body)); n < 0 {
		f.err = ErrMalformed
		return false
	}
	f.rest.from += n
	return true
}

// value reads the field's value and returns its length, or less than 0.
func (f *wireFields) value(rest []byte) (n int) {
	switch f.kind {
	case protowire.BytesType:
		var bytes []byte
		bytes, n = protowire.ConsumeBytes(rest)
		end := f.rest.from + n
		f.bytes = part{end - len(bytes), end}
	case protowire.VarintType:
		f.bits, n = protowire.ConsumeVarint(rest)
	case protowire.Fixed64Type:
		f.bits, n = protowire.ConsumeFixed64(rest)
	default:
		n = protowire.ConsumeFieldValue(f.number, f.kind, rest)
	}
	return n
}

// check ends the walk at an error.
func (f *wireFields) check(err error) {
	if f.err == nil {
		f.err = err
	}
}

func (f *wireFields) want(kind protowire.Type) bool {
	if f.kind != kind {
		f.check(ErrMalformed)
	}
	return f.kind == kind
}

// message returns the bytes of a message or text.
func (f *wireFields) message() part {
	if !f.want(protowire.BytesType) {
		return part{}
	}
	return f.bytes
}

func (f *wireFields) varint() uint64 {
	if !f.want(protowire.VarintType) {
		return 0
	}
	return f.bits
}

func (f *wireFields) fixed64() uint64 {
	if !f.want(protowire.Fixed64Type) {
		return 0
	}
	return f.bits
}

// id reads an id, which may be empty but not of another length.
func (f *wireFields) id(dst []byte) {
	switch id := f.message().of(f.body); len(id) {
	case 0:
		clear(dst)
	case len(dst):
		copy(dst, id)
	default:
		f.check(ErrMalformed)
	}
}
