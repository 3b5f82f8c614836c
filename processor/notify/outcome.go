package notify

// outcome is how a try went. It is a metric's label and what people see.
type outcome string

// The outcomes. Those that are final are not tried again.
const (
	outcomeDelivered outcome = "delivered"
	outcomeStatus    outcome = "bad_status"
	outcomeRedirect  outcome = "redirected"
	outcomeGone      outcome = "gone"
	outcomeAddress   outcome = "address_refused"
	outcomeTimeout   outcome = "timeout"
	outcomeFailed    outcome = "not_reached"
	outcomeMail      outcome = "mail_refused"
	outcomeNoMail    outcome = "no_mail_server"
	outcomeRemoved   outcome = "channel_removed"
	outcomeSecret    outcome = "no_secret"
	// The secret was encrypted with a key that this processor does not have.
	outcomeKey outcome = "no_secrets_key"
)

// outcomes lists them all, for the metrics to begin at 0.
func outcomes() []outcome {
	return []outcome{
		outcomeDelivered, outcomeStatus, outcomeRedirect, outcomeGone, outcomeAddress, outcomeTimeout, outcomeFailed,
		outcomeMail, outcomeNoMail, outcomeRemoved, outcomeSecret, outcomeKey,
	}
}

// final reports whether another try would go the same way.
func (o outcome) final() bool {
	switch o {
	case outcomeDelivered, outcomeGone, outcomeAddress, outcomeNoMail, outcomeRemoved, outcomeSecret:
		return true
	}
	return false
}

// result is an outcome with the number that the receiver answered, or 0.
type result struct {
	outcome outcome
	status  int
}
