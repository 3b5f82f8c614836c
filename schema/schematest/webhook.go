package schematest

import (
	"encoding/json"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/outlayhq/outlay/schema/openapi"
)

// webhooks is the OpenAPI document, loaded once.
var webhooks = sync.OnceValues(func() (*openapi3.T, error) { return openapi3.NewLoader().LoadFromData(openapi.YAML()) })

// CheckWebhook fails the test when what a webhook got is not what the OpenAPI document describes. It may be called from any
// goroutine.
func CheckWebhook(t testing.TB, body []byte) {
	t.Helper()
	doc, err := webhooks()
	if err != nil {
		t.Errorf("the OpenAPI document: %v", err)
		return
	}
	var message map[string]any
	if err := json.Unmarshal(body, &message); err != nil {
		t.Errorf("what a webhook got: %v: %s", err, body)
		return
	}
	kind, _ := message["type"].(string)
	item := doc.Webhooks[kind]
	if item == nil || item.Post == nil {
		t.Errorf("the OpenAPI document has no webhook %q", kind)
		return
	}
	schema := item.Post.RequestBody.Value.Content.Get("application/json").Schema.Value
	if err := schema.VisitJSON(message, openapi3.MultiErrors()); err != nil {
		t.Errorf("what a webhook got is not what the OpenAPI document says: %v\n%s", err, body)
	}
}
