package main

import (
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/outlayhq/outlay/processor/erasure"
	"github.com/outlayhq/outlay/processor/mail"
	"github.com/outlayhq/outlay/processor/report"
	"github.com/outlayhq/outlay/processor/reprice"
	"github.com/outlayhq/outlay/processor/work"
)

// newJobs returns the runner of all kinds of jobs.
func newJobs(cfg mail.Config, pool *pgxpool.Pool, topic string, r prometheus.Registerer, log *slog.Logger) (*work.Runner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	runner, err := work.New(work.Deps{Pool: pool, Metrics: r, Log: log})
	if err != nil {
		return nil, err
	}
	erasure.Register(erasure.Deps{Pool: pool, Work: runner, Now: time.Now})
	report.Register(report.Deps{Pool: pool, Mail: mail.New(cfg), Work: runner, Log: log, Now: time.Now})
	reprice.Register(reprice.Deps{Pool: pool, Topic: topic, Work: runner, Metrics: r, Log: log})
	return runner, nil
}
