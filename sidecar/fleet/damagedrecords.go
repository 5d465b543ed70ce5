package fleet

import (
	"context"
	"fmt"

	"github.com/rs/zerolog"

	"assay/queue"
	"assay/rewardmodel/retrain"
)

// damagedQueue is how many damaged records wait to be published as events. All are counted and logged.
const damagedQueue = 100

// damagedRecords publishes an event for each damaged record that this process reads.
type damagedRecords struct {
	journal retrain.Journal
	replica string
	found   chan queue.DamagedRecord
	log     zerolog.Logger
}

func newDamagedRecords(journal retrain.Journal, replica string, q *queue.Queue, log zerolog.Logger) *damagedRecords {
	d := &damagedRecords{journal: journal, replica: replica, found: make(chan queue.DamagedRecord, damagedQueue), log: log}
	q.OnDamage(func(r queue.DamagedRecord) {
		select {
		case d.found <- r:
		default:
		}
	})
	return d
}

// run publishes events until ctx ends. Replicas that find the same record publish one event.
func (d *damagedRecords) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-d.found:
			where := fmt.Sprintf("sequence %d of %s, subject %q", r.Sequence, r.Stream, r.Subject)
			event := retrain.Event{Kind: retrain.EventRecordDamaged, Replica: d.replica, Reason: where + ", is not as it was stored",
				Key: fmt.Sprintf("damaged/%s/%d/%q", r.Stream, r.Sequence, r.Subject)}
			if err := d.journal.Publish(ctx, event); err != nil && ctx.Err() == nil {
				d.log.Warn().Err(err).Msg("cannot publish the event of a damaged record")
			}
		}
	}
}
