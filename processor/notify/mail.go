package notify

import (
	"context"
	"errors"
	"net"

	gomail "github.com/wneessen/go-mail"

	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/schema/alert"
)

// sendMail sends a message by e-mail.
func sendMail(ctx context.Context, sender *mail.Sender, d *delivery) result {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	err := sender.Send(ctx, &mail.Letter{
		ID: d.ID.Text(alert.DeliveryPrefix), To: d.Address, Subject: "[Outlay] " + d.Title, Text: d.Title + "\n\n" + d.Summary + "\n",
	})
	// The number of the server's reply is kept, its text is not: it may quote the address or the letter.
	var answered *gomail.SendError
	var timeout net.Error
	switch {
	case err == nil:
		return result{outcome: outcomeDelivered}
	case errors.Is(err, mail.ErrNotSetUp):
		return result{outcome: outcomeNoMail}
	case errors.As(err, &answered):
		return result{outcomeMail, answered.ErrorCode()}
	case errors.Is(err, mail.ErrRefused):
		return result{outcome: outcomeMail}
	case errors.As(err, &timeout) && timeout.Timeout():
		return result{outcome: outcomeTimeout}
	}
	return result{outcome: outcomeFailed}
}
