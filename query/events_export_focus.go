package query

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// focusExporter writes the columns of FOCUS 1.2, the FinOps Open Cost and Usage
// Specification, one row an event. One request is the pricing unit, so that unit
// price times quantity is the cost to the nano-dollar; tokens are what is consumed.
type focusExporter struct {
	*csvWriter
	accountID, accountName string
}

func newFocusExporter(c *request, accountName string) *focusExporter {
	return &focusExporter{
		newCSV(c, "focus.csv", focusHeader()), c.who.AccountID.Text(schema.AccountPrefix), accountName,
	}
}

func focusHeader() []string {
	return []string{
		"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart",
		"ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd", "ChargePeriodStart",
		"ConsumedQuantity", "ConsumedUnit", "ContractedCost", "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName",
		"ListCost", "ListUnitPrice", "PricingCategory", "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName",
		"ResourceId", "ResourceName", "ResourceType", "ServiceCategory", "ServiceName", "ServiceSubcategory",
		"SkuId", "SkuPriceId", "Tags",
		"x_EventId", "x_SessionId", "x_InputTokens", "x_OutputTokens", "x_CacheReadTokens", "x_CostSource", "x_Status",
	}
}

func (x *focusExporter) event(e *usage.Event) {
	cost, at := e.CostUSD.String(), e.Timestamp.Time
	month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	provider, model := focusName(e.Provider, "Unknown"), focusName(e.Model, "Unknown model")
	start := at.Truncate(time.Second)

	x.text(cost)
	x.text(x.accountID)
	x.name(x.accountName)
	x.text("USD")
	x.times(month.AddDate(0, 1, 0), month)
	x.text("Usage")
	x.text("") // ChargeClass: no correction.
	x.name(provider + " " + model + " called by " + e.Agent)
	x.text("Usage-Based")
	x.times(start.Add(time.Second), start)
	x.text(strconv.FormatInt(e.InputTokens+e.OutputTokens, 10))
	x.text("Tokens")
	x.text(cost)
	x.text(cost)
	x.text(cost)
	x.name(provider)
	x.text(cost)
	x.text(cost)
	x.text("Standard")
	x.text("1")
	x.text("Requests")
	x.name(provider)
	x.name(provider)
	x.name(e.Agent)
	x.name(e.Agent)
	x.text("Agent")
	x.text("AI and Machine Learning")
	x.name(provider + " language models")
	x.text("Generative AI")
	x.name(model)
	x.name(focusName(e.PriceID, ""))
	x.text(focusTags(e))
	x.text(e.EventID.String())
	x.name(e.SessionID)
	x.number(e.InputTokens, e.OutputTokens, e.CacheReadTokens)
	x.text(e.CostSource)
	x.text(e.Status)
	x.endLine()
}

func (x *focusExporter) flush() error { return x.send() }

func (x *focusExporter) times(times ...time.Time) {
	for _, t := range times {
		x.text(usage.Time{Time: t}.String())
	}
}

func focusName(name *string, otherwise string) string {
	if name == nil {
		return otherwise
	}
	return *name
}

// focusTags writes user and tags as FOCUS wants them: an object of key and value,
// where a tag without a value is true.
func focusTags(e *usage.Event) string {
	tags := map[string]any{}
	for _, tag := range e.Tags {
		tags[tag] = true
	}
	if e.UserID != nil {
		tags["user_id"] = *e.UserID
	}
	text, err := json.Marshal(tags)
	if err != nil {
		panic("BUG: tags cannot be written as JSON: " + err.Error())
	}
	return string(text)
}
