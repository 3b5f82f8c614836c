// Package jobs runs the jobs of the processor tier: what takes longer than a request, asked for by accounts or by the tier itself.
// A job is a row of the table jobs, which the API shows; every replica runs a Runner that claims due rows with SKIP LOCKED. A job is
// done at least once: a replica that is killed has no heartbeat any more, and its jobs are claimed by another within seconds. So a
// job must be able to run again, and what it writes is fenced by Task.Fence. What a job does is left to the packages that register it.
package jobs
