package otlp

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
)

// Encoding is how a request is written; its answer is written alike.
type Encoding int

// The encodings of OTLP over HTTP.
const (
	Protobuf Encoding = iota
	JSON
)

// EncodingOf returns the encoding that a Content-Type stands for.
func EncodingOf(contentType string) (Encoding, bool) {
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/x-protobuf":
		return Protobuf, true
	case "application/json":
		return JSON, true
	}
	return JSON, false
}

// ContentType returns the Content-Type of e.
func (e Encoding) ContentType() string {
	if e == Protobuf {
		return "application/x-protobuf"
	}
	return "application/json"
}

// AppendResponse appends an ExportTraceServiceResponse. rejected is how many
// spans were not recorded and message says why; with no rejected span the
// response is the empty message, as OTLP wants it.
func (e Encoding) AppendResponse(dst []byte, rejected int, message string) []byte {
	if e == JSON {
		if rejected == 0 {
			return append(dst, "{}"...)
		}
		// Protobuf writes a 64-bit integer as a JSON string.
		dst = append(dst, `{"partialSuccess":{"rejectedSpans":"`...)
		dst = strconv.AppendInt(dst, int64(rejected), 10)
		dst = append(dst, `","errorMessage":`...)
		return append(appendQuote(dst, message), "}}"...)
	}
	if rejected == 0 {
		return dst
	}
	var partial []byte
	partial = protowire.AppendTag(partial, 1, protowire.VarintType)
	partial = protowire.AppendVarint(partial, uint64(rejected))
	partial = protowire.AppendTag(partial, 2, protowire.BytesType)
	partial = protowire.AppendString(partial, message)
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	return protowire.AppendBytes(dst, partial)
}

// StatusCode is a code of google.rpc.Status.
type StatusCode int

// The codes that a request as a whole can be answered with.
const (
	InvalidArgument   StatusCode = 3
	PermissionDenied  StatusCode = 7
	ResourceExhausted StatusCode = 8
	Unavailable       StatusCode = 14
	Unauthenticated   StatusCode = 16
)

// AppendStatus appends a google.rpc.Status, OTLP's answer to a request that was
// refused as a whole.
func (e Encoding) AppendStatus(dst []byte, code StatusCode, message string) []byte {
	if e == JSON {
		dst = append(dst, `{"code":`...)
		dst = strconv.AppendInt(dst, int64(code), 10)
		dst = append(dst, `,"message":`...)
		return append(appendQuote(dst, message), '}')
	}
	dst = protowire.AppendTag(dst, 1, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(code))
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	return protowire.AppendString(dst, message)
}

func appendQuote(dst []byte, text string) []byte {
	dst, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		panic("BUG: a message of ours is not UTF-8: " + err.Error())
	}
	return dst
}
