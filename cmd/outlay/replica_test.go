package main

import "testing"

// replica is an ingest process that can be ended and started again at its address.
type replica struct {
	*running
	listen, ops string
	args        []string
}

// newReplicas starts three of them, with flags besides those that each needs.
func (in *installation) newReplicas(t *testing.T, flags ...string) []*replica {
	t.Helper()
	replicas := make([]*replica, 3)
	for i := range replicas {
		r := &replica{listen: freeAddress(t), ops: freeAddress(t)}
		r.args = append([]string{"ingest", "--database-url", in.databaseURL, "--listen", r.listen, "--ops-listen", r.ops}, in.kafka...)
		r.args = append(r.args, flags...)
		r.start(t)
		replicas[i] = r
	}
	return replicas
}

func (r *replica) start(t *testing.T) {
	t.Helper()
	r.running = launch(t, "ingest", r.args...)
	r.awaitReady(t, r.ops)
}

// killAndRestart ends a replica as a power cut does, and starts it again.
func (r *replica) killAndRestart(t *testing.T) {
	t.Helper()
	r.kill()
	r.start(t)
}
