// Package alerting evaluates the alert rules of all accounts, and the thresholds of their caps, against the sums that are kept while
// events are stored. One processor at a time does it: the leader, which holds a lease in the database. What it finds (an incident
// begins, reaches a peak or ends; a threshold is crossed) is written together with the messages to send, in one transaction that
// checks the lease, so that each is notified once whatever is killed meanwhile. Sending them is left to package notify.
package alerting
