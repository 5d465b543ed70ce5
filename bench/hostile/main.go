// Command hostile runs the service in a memory cgroup of the chart's size and
// attacks its memory, while honest clients measure how they are served:
//
//	make build && go run ./bench/hostile --for 5m
//
// It prints a Markdown table: success rate and latency of the honest clients
// without and with the attack, and the peak memory of the service. It exits
// with 1 if the service died. The cgroup needs root; without it the program
// says so and reports the peak resident memory alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"time"
)

type settings struct {
	assay    string
	hostile  int
	baseline time.Duration
	attack   time.Duration
	memory   int64
	goMemory string
	cgroup   string
}

func main() {
	var s settings
	flag.StringVar(&s.assay, "assay", "bin/assay", "the binary to attack")
	flag.IntVar(&s.hostile, "clients", 64, "hostile clients")
	flag.DurationVar(&s.baseline, "baseline", time.Minute, "time without the attack")
	flag.DurationVar(&s.attack, "for", 5*time.Minute, "time of the attack")
	flag.Int64Var(&s.memory, "memory", 4<<30, "memory limit in bytes; the chart's")
	flag.StringVar(&s.goMemory, "gomemlimit", "2GiB", "GOMEMLIMIT of the service; the chart's")
	flag.StringVar(&s.cgroup, "cgroup", ownCgroup(), "memory cgroup in which one is made for the service")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings) (err error) {
	service, err := startService(ctx, s)
	if err != nil {
		return err
	}
	defer func() { service.stop(err != nil) }()
	if err := service.ready(ctx); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "ready: %v\n", service.usage())

	before := honest(ctx, service, s.baseline)
	fmt.Fprintf(os.Stderr, "after the baseline: %v\n", service.usage())

	attacking, stop := context.WithTimeout(ctx, s.attack)
	defer stop()
	var attackers sync.WaitGroup
	tally := newTally()
	for i := range s.hostile {
		attackers.Go(func() { attack(attacking, service, i, tally) })
	}
	during := honest(ctx, service, s.attack)
	stop()
	attackers.Wait()
	printTable(before, during)
	fmt.Println()
	tally.print()
	fmt.Println()
	fmt.Println("memory:", service.usage())
	return service.alive()
}
