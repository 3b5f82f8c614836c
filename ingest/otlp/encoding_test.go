package otlp

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
)

func TestEncodingOf(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]Encoding{
		"application/x-protobuf": Protobuf, "application/json": JSON, "Application/JSON; charset=utf-8": JSON,
	} {
		if e, ok := EncodingOf(contentType); !ok || e != want {
			t.Errorf("EncodingOf(%q) = %v, %v, want %v", contentType, e, ok, want)
		}
	}
	for _, contentType := range []string{"", "text/plain", "application/protobuf", "application/grpc"} {
		if _, ok := EncodingOf(contentType); ok {
			t.Errorf("EncodingOf(%q) is known, want unknown", contentType)
		}
	}
}

// fields are the fields of a flat message; an embedded one is its bytes.
func fields(t *testing.T, message []byte) map[protowire.Number]any {
	t.Helper()
	found := map[protowire.Number]any{}
	for len(message) > 0 {
		field, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatalf("%x is not protobuf", message)
		}
		message = message[n:]
		if kind == protowire.VarintType {
			value, n := protowire.ConsumeVarint(message)
			found[field], message = value, message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		found[field], message = string(value), message[n:]
	}
	return found
}

func TestAnswersAreOTLP(t *testing.T) {
	t.Parallel()
	if got := string(JSON.AppendResponse(nil, 0, "fine")); got != "{}" {
		t.Errorf("success = %s, want {}", got)
	}
	if got := Protobuf.AppendResponse(nil, 0, "fine"); len(got) != 0 {
		t.Errorf("success = %x, want the empty message", got)
	}
	if got, want := string(JSON.AppendResponse(nil, 2, `a "b"`)), `{"partialSuccess":{"rejectedSpans":"2","errorMessage":"a \"b\""}}`; got != want {
		t.Errorf("partial success = %s, want %s", got, want)
	}
	if got, want := string(JSON.AppendStatus(nil, Unavailable, "later")), `{"code":14,"message":"later"}`; got != want {
		t.Errorf("status = %s, want %s", got, want)
	}
	partial, _ := fields(t, Protobuf.AppendResponse(nil, 2, "why"))[1].(string)
	if diff := cmp.Diff(map[protowire.Number]any{1: uint64(2), 2: "why"}, fields(t, []byte(partial))); diff != "" {
		t.Errorf("partial success differs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[protowire.Number]any{1: uint64(14), 2: "later"}, fields(t, Protobuf.AppendStatus(nil, Unavailable, "later"))); diff != "" {
		t.Errorf("status differs (-want +got):\n%s", diff)
	}
}
