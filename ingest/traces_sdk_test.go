package ingest

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/outlayhq/outlay/schema"
)

// The exporter of OpenTelemetry's own Go SDK needs nothing but the address and the
// key. What an agent's run leaves in Kafka is its calls of models.
func TestTracesTakesTheGoSDK(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	exporter, err := otlptracehttp.New(t.Context(),
		otlptracehttp.WithEndpointURL(f.server.URL+"/v1/traces"),
		otlptracehttp.WithHeaders(map[string]string{"Authorization": "Bearer " + f.secret}),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "support-bot"))))
	runAgent(t, provider.Tracer("test"))
	if err := provider.Shutdown(t.Context()); err != nil {
		t.Fatalf("the exporter says: %v", err)
	}

	type call struct {
		Agent, Provider, Model, Session, Step string
		Input, Output, Cached                 int64
		Cost                                  schema.NanoUSD
		Status                                schema.Status
		ErrorType                             string
	}
	var got []call
	for _, e := range f.events(t, 2) {
		got = append(got, call{
			e.Agent, e.Provider, e.Model, e.SessionID, e.Step, e.InputTokens, e.OutputTokens, e.CacheReadTokens,
			e.Cost, e.Status, e.ErrorType,
		})
		if age := time.Since(e.Time); age < 0 || age > time.Hour || e.LatencyMS < 0 {
			t.Errorf("the call was %v ago and took %d ms", age, e.LatencyMS)
		}
	}
	slices.SortFunc(got, func(a, b call) int { return strings.Compare(a.Model, b.Model) })
	want := []call{
		{"support-bot", "anthropic", "claude-sonnet-4-5", "ses_chat-1", "chat", 0, 0, 0, 0, schema.StatusError, "overloaded"},
		{"support-bot", "openai", "gpt-4o", "ses_chat-1", "chat", 1200, 300, 1000, 4_750_000, schema.StatusOK, ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events differ (-want +got):\n%s", diff)
	}
}

// runAgent makes the spans of an agent: a call that works, one that fails, a tool,
// HTTP below, and a span around all that sums up the usage.
func runAgent(t *testing.T, tracer trace.Tracer) {
	t.Helper()
	ctx, agent := tracer.Start(t.Context(), "invoke_agent support", trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "invoke_agent"), attribute.String("gen_ai.request.model", "gpt-4o"),
		attribute.Int("gen_ai.usage.input_tokens", 1200), attribute.Int("gen_ai.usage.output_tokens", 300)))
	defer agent.End()
	inner, call := tracer.Start(ctx, "chat gpt-4o", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.provider.name", "openai"),
		attribute.String("gen_ai.request.model", "gpt-4o"), attribute.String("gen_ai.conversation.id", "chat-1"),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{"stop"})))
	_, request := tracer.Start(inner, "POST", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attribute.String("http.request.method", "POST")))
	request.End()
	call.SetAttributes(attribute.String("gen_ai.response.model", "gpt-4o"), attribute.Int("gen_ai.usage.input_tokens", 1200),
		attribute.Int("gen_ai.usage.output_tokens", 300), attribute.Int("gen_ai.usage.cache_read.input_tokens", 1000))
	call.End()
	_, tool := tracer.Start(ctx, "execute_tool search", trace.WithAttributes(attribute.String("gen_ai.operation.name", "execute_tool")))
	tool.End()
	_, failed := tracer.Start(ctx, "chat claude-sonnet-4-5", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.system", "anthropic"),
		attribute.String("gen_ai.request.model", "claude-sonnet-4-5"), attribute.String("gen_ai.conversation.id", "chat-1"),
		attribute.String("error.type", "overloaded")))
	failed.SetStatus(codes.Error, "529")
	failed.End()
}

// failing answers the first export with 503, as when Kafka is away, after the
// spans were recorded all the same.
type failing struct {
	http.RoundTripper
	failed bool
}

func (f *failing) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.RoundTripper.RoundTrip(r)
	if err == nil && !f.failed {
		f.failed = true
		response.StatusCode = http.StatusServiceUnavailable
		response.Header.Set("Retry-After", "0")
	}
	return response, err
}

// An export whose answer was lost is sent again by the SDK and recorded under the
// same event_id.
func TestTracesRetryOfTheGoSDKIsTheSameEvent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(c *Config) { c.RecentKeys = 0 })
	transport := &failing{RoundTripper: f.server.Client().Transport}
	exporter, err := otlptracehttp.New(t.Context(),
		otlptracehttp.WithEndpointURL(f.server.URL+"/v1/traces"),
		otlptracehttp.WithHTTPClient(&http.Client{Transport: transport}),
		otlptracehttp.WithHeaders(map[string]string{"Authorization": "Bearer " + f.secret}),
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: time.Millisecond, MaxInterval: time.Second, MaxElapsedTime: time.Minute}))
	if err != nil {
		t.Fatal(err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	_, call := provider.Tracer("test").Start(t.Context(), "chat", trace.WithAttributes(attribute.String("gen_ai.operation.name", "chat")))
	call.End()
	if err := errors.Join(provider.ForceFlush(t.Context()), provider.Shutdown(t.Context())); err != nil {
		t.Fatal(err)
	}
	events := f.events(t, 2)
	if !transport.failed || events[0].ID != events[1].ID || events[0].SessionID != events[1].SessionID {
		t.Errorf("sent again as %v, want the id of the first: %v", events[1].ID, events[0].ID)
	}
}
