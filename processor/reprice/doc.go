// Package reprice gives events that are stored the cost of another price book, as a job that an account asked for: it reads a slice
// of events, asks package price what each costs, and has one statement correct those that change together with everything that is
// summed from them and with where the job stands. A job that is killed goes on from there, on any replica, and corrects each event
// once. A dry run does the same and corrects nothing. Costs that clients gave, and events without usage, are never touched. Sums
// in aggregates are brought up to date by the processor's upkeep, as after late events.
package reprice
