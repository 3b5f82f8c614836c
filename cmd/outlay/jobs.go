package main

import (
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/work"
)

// newJobs returns the runner of all kinds of jobs.
func newJobs(pool *pgxpool.Pool, r prometheus.Registerer, log *slog.Logger) (*work.Runner, error) {
	runner, err := work.New(work.Deps{Pool: pool, Metrics: r, Log: log})
	if err != nil {
		return nil, err
	}
	return runner, nil
}
