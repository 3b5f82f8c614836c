// Package watch checks the alert rules of all accounts against the sums that are kept
// while events are stored. One processor at a time does it. What it finds (an
// incident begins, reaches a peak, ends; a cap's threshold is passed) is written
// together with the messages to send, in one transaction, so that each is notified once
// whatever is killed meanwhile. Sending them is left to package notify.
package watch
