// Package work runs the jobs of the processor tier, on the queue River: those that accounts ask for (package schema/job), those
// that the tier gives itself, and those that are due at intervals. Every replica runs a Runner; River elects the one that keeps
// the intervals. A job is done at least once: a replica that is killed stops saying that it is alive, and what it had in hand is
// taken up by another within seconds. So a job must be able to run again, and what it writes for an account is fenced by
// Tracked.Fence. What a job does is left to the packages that register it.
package work
