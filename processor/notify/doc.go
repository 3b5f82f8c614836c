// Package notify sends what package alerting, and others, have noted in the outbox: by
// webhook, Slack and e-mail. Any number of processors send at the same time; each
// message is tried by one of them at a time, again and again for a day, and every try
// is written down. A message arrives at least once, always under the same id.
package notify
