// Outlay records what software agents spend on language models. This command is
// the whole of it: each tier, the program that runs all of them at once, and what
// an administrator needs. It is the only place that wires packages together.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // Budgets and analytics know every time zone, also where the machine has none.

	"github.com/alecthomas/kong"
)

// cli is the command line: a field for each command, and the flags that all of them have.
type cli struct {
	Up        upCommand        `cmd:"" help:"Run everything in one process: broker, database, all tiers, one address. For trying out and small installations."`
	Ingest    ingestCommand    `cmd:"" help:"Run the ingest tier: takes events over HTTP and writes them to Kafka."`
	Processor processorCommand `cmd:"" help:"Run the processor: moves events from Kafka to the database."`
	Query     queryCommand     `cmd:"" help:"Run the query tier: answers what was spent."`
	Migrate   migrateCommand   `cmd:"" help:"Bring the database schema and the Kafka topics up to date."`
	Account   accountCommand   `cmd:"" help:"Create and list accounts."`
	User      userCommand      `cmd:"" help:"Create and list users."`
	Key       keyCommand       `cmd:"" help:"Create, list and revoke API keys."`
	Load      loadCommand      `cmd:"" help:"Send a known total of events and check that exactly that is stored."`
	Check     checkCommand     `cmd:"" help:"Check brokers, database, alerting and lag."`
	Health    healthCommand    `cmd:"" help:"Ask a process whether it is ready; for container health checks."`

	Version kong.VersionFlag `env:"-" help:"Print version information and exit."`

	LogLevel  string `name:"log-level" default:"info" enum:"debug,info,warn,error" help:"Minimum level of log lines: debug, info, warn or error."`
	LogFormat string `name:"log-format" default:"text" enum:"text,json" help:"Form of the log: text or json."`
}

// description is what outlay --help prints above the list of commands.
const description = `Outlay records what software agents spend on language models, prices every call,
stops an agent at its budget cap, and shows where the money went.

To try it out: outlay up. It needs nothing else.

In production: outlay migrate, then outlay account create, then any number of
outlay ingest, outlay processor and outlay query. outlay check looks at the whole.

Every flag is also an environment variable: --database-url is OUTLAY_DATABASE_URL.
OUTLAY_DATABASE_URL_FILE names a file that holds the value, for secrets.`

// version is set by the build of a release.
var version = "devel"

// newParser returns the parser of the command line. A flag comes from the arguments, then its variable, then the file that the
// variable with _FILE names, then its default.
func newParser(c *cli) *kong.Kong {
	k := kong.Must(c,
		kong.Name("outlay"), kong.Description(description), kong.Vars{"version": version},
		kong.DefaultEnvars("OUTLAY"), kong.Resolvers(kong.ResolverFunc(fromFile)),
		kong.ShortUsageOnError(), kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	for _, command := range k.Model.Children {
		describe(command)
	}
	return k
}

func main() {
	var c cli
	parser := newParser(&c)
	// Without arguments the help is more useful than an error.
	args := os.Args[1:]
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	os.Exit(run(&c, parsed))
}

// run ends when the command does, or soon after the first SIGINT or SIGTERM. A
// second signal ends the process at once.
func run(c *cli, parsed *kong.Context) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	// Standard output is for what commands print, so that it can be piped.
	log := newLogger(os.Stderr, c.LogLevel, c.LogFormat)
	parsed.BindTo(ctx, (*context.Context)(nil))
	if err := parsed.Run(log); err != nil {
		fmt.Fprintf(os.Stderr, "outlay: %v\n", err)
		return 1
	}
	return 0
}

// fromFile resolves a flag from the file that its OUTLAY_…_FILE variable names.
func fromFile(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	for _, name := range flag.Envs {
		if os.Getenv(name) != "" {
			return nil, nil //nolint:nilnil // kong reads this as "not resolved here".
		}
		path := os.Getenv(name + "_FILE")
		if path == "" {
			continue
		}
		return readSecret(path)
	}
	return nil, nil //nolint:nilnil // kong reads this as "not resolved here".
}
