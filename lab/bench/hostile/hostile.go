// Package hostile runs the service in a memory cgroup of the chart's size and attacks its memory, while honest clients
// measure how they are served.
package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Settings specify a run.
type Settings struct {
	Assay         string        // binary to attack
	Clients       int           // hostile clients
	Baseline      time.Duration // time without the attack
	Attack        time.Duration // time of the attack
	Memory        int64         // memory limit in bytes
	GoMemory      string        // GOMEMLIMIT of the service
	RequestMemory int64         // --request-memory of the service, in bytes
	Cgroup        string        // memory cgroup in which one is created for the service
	Notify        func(message string)
}

// Run prints a Markdown table: success rate and latency of the honest clients without and with the attack, the outcomes
// of the attacks, and the peak memory of the service. It fails if the service exits, or if a request of either gets an
// error of the service but the documented 503 and 504. The cgroup needs root; without it Run notifies and reports the
// resident memory only.
func Run(ctx context.Context, w io.Writer, s Settings) (err error) {
	service, err := startVictim(ctx, s)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, service.Close())
		service.group.remove()
	}()
	s.Notify("ready: " + service.usage())
	before, err := honest(ctx, service, s.Baseline)
	if err != nil {
		return err
	}
	s.Notify("after the baseline: " + service.usage())

	attacking, stop := context.WithTimeout(ctx, s.Attack)
	defer stop()
	var attackers sync.WaitGroup
	tally := newTally()
	for i := range s.Clients {
		attackers.Go(func() { attack(attacking, service, i, tally) })
	}
	during, err := honest(ctx, service, s.Attack)
	stop()
	attackers.Wait()
	printTable(w, before, during)
	fmt.Fprintln(w)
	tally.print(w)
	fmt.Fprintln(w, "\nmemory:", service.usage())
	return errors.Join(err, service.alive(), undocumented(tally, before, during))
}
