package main

import (
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/erasure"
	"github.com/outlayhq/outlay/processor/jobs"
	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/processor/report"
	"github.com/outlayhq/outlay/processor/reprice"
)

// newJobs returns the runner of all kinds of jobs.
func newJobs(cfg mail.Config, pool *pgxpool.Pool, topic string, r prometheus.Registerer, log *slog.Logger) (*jobs.Runner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// A kind that is not registered stays in the queue until a processor that knows it claims it.
	runner := jobs.New(jobs.Deps{Pool: pool, Metrics: r, Log: log})
	erasure.Register(erasure.Deps{Pool: pool, Jobs: runner, Now: time.Now})
	report.Register(report.Deps{Pool: pool, Mail: mail.New(cfg), Jobs: runner, Log: log, Now: time.Now})
	reprice.Register(reprice.Deps{Pool: pool, Topic: topic, Jobs: runner, Metrics: r, Log: log})
	return runner, nil
}
