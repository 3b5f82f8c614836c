// Servers runs a command, such as the tests, beside the servers that it needs, and ends them with it: PostgreSQL in every edition
// that this machine has and a real Apache Kafka. It names them in the environment of the command, and says at the end
// what the command ran on.
//
//	go run ./schema/schematest/servers -- go test ./...
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	editions := flag.String("editions", "", "comma-separated editions of the database to start; all that are installed by default")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: servers [flags] -- command [argument ...]\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
		os.Exit(2)
	}
	code, err := run(*editions, flag.Args(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
	os.Exit(code)
}

// run starts the servers, runs the command and returns its exit code. A signal that ends us goes to the command, and
// the servers end when the command has.
func run(editions string, command []string, out io.Writer) (code int, err error) {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	f, err := start(ctx, editions)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()

	code, err = execute(ctx, command, f.environment())
	if err != nil {
		return 1, err
	}
	f.report(context.WithoutCancel(ctx), out)
	return code, nil
}

// execute runs the command with our own input and output.
func execute(ctx context.Context, command, environment []string) (int, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), environment...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // Which the go command passes on to what it runs.
	cmd.WaitDelay = 10 * time.Second
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil // -1 for a command that a signal ended.
	}
	if err != nil {
		return 1, fmt.Errorf("run %s: %w", command[0], err)
	}
	return 0, nil
}
