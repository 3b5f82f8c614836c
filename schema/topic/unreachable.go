package topic

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Exists returns nil when Kafka answers and has the topic. Otherwise the error is one
// line that says what a tier waits for.
func Exists(ctx context.Context, client *kgo.Client, name string) error {
	_, err := find(ctx, kadm.NewClient(client), name)
	return waiting(client, name, err)
}

// TakesEvents returns nil when Kafka can write to a partition of the topic. Replicas
// stay ready while some partitions cannot be written to: turning every request away
// would be worse. The error is one line.
func TakesEvents(ctx context.Context, client *kgo.Client, name string) error {
	partitions, failures, err := Writable(ctx, kadm.NewClient(client), name)
	if err == nil && len(failures) > 0 && len(failures) == partitions {
		return fmt.Errorf("kafka does not take events: %w", failures[0])
	}
	return waiting(client, name, err)
}

func waiting(client *kgo.Client, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("the topic %s does not exist: run outlay migrate with --kafka-brokers", name)
	case Answered(err):
		return fmt.Errorf("kafka: %w", err)
	}
	brokers, _ := client.OptValue(kgo.SeedBrokers).([]string)
	return fmt.Errorf("waiting for Kafka at %s: %s", strings.Join(brokers, ", "), Advice(err))
}

// Answered reports whether an error is a broker's response to a user that it has let in.
func Answered(err error) bool {
	return errors.As(err, new(*kerr.Error)) && !notLetIn(err)
}

func notLetIn(err error) bool {
	return errors.Is(err, kerr.SaslAuthenticationFailed) || errors.Is(err, kerr.UnsupportedSaslMechanism) || errors.Is(err, kerr.IllegalSaslState)
}

// Advice says in one line what to do about a Kafka that cannot be reached, and why.
func Advice(err error) string {
	var timeout net.Error
	switch {
	case notLetIn(err):
		return "correct --kafka-sasl, --kafka-sasl-user and --kafka-sasl-password (it does not let this user in)"
	case errors.As(err, new(*kgo.ErrFirstReadEOF)):
		return "it may want --kafka-tls or --kafka-sasl (it closes connections)"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "leave --kafka-tls out, or name its TLS port in --kafka-brokers (it does not speak TLS)"
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return "name the authority of its certificate in --kafka-tls-ca (the certificate is not trusted)"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start it, or correct --kafka-brokers (connection refused)"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "start it, or correct --kafka-brokers (no response in time)"
	}
	return "start it, or correct --kafka-brokers (" + strings.Join(strings.Fields(err.Error()), " ") + ")"
}
