package query

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/outlayhq/outlay/query/rest"
	"github.com/outlayhq/outlay/query/usage"
	"github.com/outlayhq/outlay/schema"
)

// focusExporter writes the columns of FOCUS 1.2, the FinOps Open Cost and Usage
// Specification, one row an event. One request is the pricing unit, so that unit
// price times quantity is the cost to the nano-dollar; tokens are what is consumed.
type focusExporter struct {
	*rest.CSV
	// accountID and accountName are the same in every row.
	accountID, accountName string
}

func newFocusExporter(c *rest.Request, accountName string) *focusExporter {
	return &focusExporter{
		rest.NewCSV(c, "focus.csv", focusHeader()), c.Who.AccountID.Text(schema.AccountPrefix), accountName,
	}
}

// focusHeader has the columns in the order in which event writes their values. Those that begin with x_ are ours, as
// FOCUS asks of what it does not know.
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

// event writes a row. The billing period is the UTC month of the event, the charge period its second, the shortest
// that FOCUS has.
func (x *focusExporter) event(e *usage.Event) {
	cost, at := e.CostUSD.String(), e.Timestamp.Time
	month := time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	provider, model := valueOr(e.Provider, "Unknown"), valueOr(e.Model, "Unknown model")
	start := at.Truncate(time.Second)

	x.Text(cost, x.accountID)
	x.Name(x.accountName)
	x.Text("USD")
	x.times(month.AddDate(0, 1, 0), month)
	x.Text("Usage", "") // ChargeClass is empty: no correction.
	x.Name(provider + " " + model + " called by " + e.Agent)
	x.Text("Usage-Based")
	x.times(start.Add(time.Second), start)
	x.Text(strconv.FormatInt(e.InputTokens+e.OutputTokens, 10), "Tokens", cost, cost, cost)
	x.Name(provider)
	x.Text(cost, cost, "Standard", "1", "Requests")
	x.Names(&provider, &provider, &e.Agent, &e.Agent)
	x.Text("Agent", "AI and Machine Learning")
	x.Name(provider + " language models")
	x.Text("Generative AI")
	x.Name(model)
	x.Names(e.PriceID)
	x.Text(focusTags(e), e.EventID.String())
	x.Name(e.SessionID)
	x.Number(e.InputTokens, e.OutputTokens, e.CacheReadTokens)
	x.Text(e.CostSource, e.Status)
	x.EndLine()
}

func (x *focusExporter) flush() error { return x.Send() }

// times adds times in the order given: FOCUS has ends before starts, since its columns are sorted by name.
func (x *focusExporter) times(times ...time.Time) {
	for _, t := range times {
		x.Text(usage.Time{Time: t}.String())
	}
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
