// Command nats_subscriber is a client of assay over NATS JetStream that uses none
// of assay's packages. It publishes responses and collects their rewards and
// dead letters, each exactly once, even if it is killed.
//
//	go run ./examples/nats_subscriber publish -run r7 < responses.jsonl
//	go run ./examples/nats_subscriber collect -run r7 -out rewards.jsonl
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "nats_subscriber:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, log io.Writer) error {
	if len(args) == 0 || (args[0] != "publish" && args[0] != "collect") {
		return errors.New("missing command: publish or collect")
	}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	url := flags.String("url", "nats://127.0.0.1:4222", "URL of the NATS server")
	name := flags.String("run", "", "name of the run, one subject token such as r7 (required)")
	out := flags.String("out", "rewards.jsonl", "collect: output file, appended to")
	expect := flags.Int("expect", 0, "collect: exit after this many rewards and dead letters (0: never)")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if *name == "" || strings.ContainsAny(*name, ".*> \t/\\") {
		return fmt.Errorf("invalid -run %q: must not be empty or contain dots, whitespace, slashes, * or >", *name)
	}
	nc, err := nats.Connect(*url, nats.Name("nats_subscriber "+*name), nats.MaxReconnects(-1))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", *url, err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	if args[0] == "publish" {
		n, err := publish(ctx, js, *name, in)
		fmt.Fprintf(log, "stored %d responses\n", n)
		return err
	}
	c := collector{js: js, run: *name, log: log}
	return c.collect(ctx, *out, *expect)
}
