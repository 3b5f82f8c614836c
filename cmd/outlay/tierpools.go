package main

import (
	"context"
	"errors"
	"net/url"

	"github.com/jackc/pgx/v5/pgxpool"
)

// tierPools are the connections of tiers that run in one process, each signed in as its
// tier's role. owner is for what comes before there is a tier, and for upkeep.
type tierPools struct {
	// Together they stay below the max_connections of 100 that PostgreSQL has by default.
	owner, ingest, processor, query *pgxpool.Pool
}

// tierPools makes them. Without a password a tier signs in with the user of --database-url.
func (f databaseFlags) tierPools(ctx context.Context, p rolePasswords) (*tierPools, error) {
	pools := &tierPools{}
	for _, want := range []struct {
		pool           **pgxpool.Pool
		role, password string
		size           int32
	}{
		{&pools.owner, "", "", upkeepPool},
		{&pools.ingest, "outlay_ingest", p.IngestPassword, ingestPool},
		{&pools.processor, "outlay_processor", p.ProcessorPassword, processorPool + jobsPool},
		{&pools.query, "outlay_query", p.QueryPassword, queryPool},
	} {
		as, err := f.as(want.role, want.password)
		if err == nil {
			*want.pool, err = as.pool(ctx, poolSettings{name: "up", size: want.size, timeouts: true})
		}
		if err != nil {
			pools.close()
			return nil, err
		}
	}
	return pools, nil
}

// as returns the flags with another user. An empty password changes nothing.
func (f databaseFlags) as(role, password string) (databaseFlags, error) {
	if password == "" {
		return f, nil
	}
	u, err := url.Parse(f.DatabaseURL)
	if err != nil {
		// The error quotes the address, and with it the password.
		return f, errors.New("--database-url is not the address of a database")
	}
	u.User = url.UserPassword(role, password)
	f.DatabaseURL = u.String()
	return f, nil
}

// close closes the pools that were made.
func (p *tierPools) close() {
	for _, pool := range []*pgxpool.Pool{p.owner, p.ingest, p.processor, p.query} {
		if pool != nil {
			pool.Close()
		}
	}
}
