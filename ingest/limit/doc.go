// Package limit holds accounts to the events a minute that their plan allows.
// Windows are the minutes of the database's clock. Each ingest replica lets
// through a small share of a window at once and is handed more, in chunks, before
// that is used up, so that a request practically never waits for the database.
// All replicas together let through 95 to 105 percent of a limit that is asked
// for, and go on with an equal share each while the database is away.
package limit
