package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"

	"assay/rewardmodel/retrain"
)

// keySuspects is the key of ASSAY_STATE with the responses that were in flight
// when a process died.
const keySuspects = "suspects"

// When a suspect is treated how.
const (
	// aloneAfter is after how many deaths a response is scored alone: until
	// then it is one of many that were in flight.
	aloneAfter = 3

	// condemnAfter is after how many deaths a response is given up although no
	// process died in a model call for it alone: it kills before that, as by
	// the memory that its tokens take.
	condemnAfter = 2 * aloneAfter

	// heldDeliveries is for how many deliveries a suspect waits for the process
	// that scores it alone, or for the next process that uses the journal of one
	// that died of it.
	heldDeliveries = 10
)

// suspect is a response that was in flight when a process died.
type suspect struct {
	Deaths   int    `json:"deaths"`
	Alone    bool   `json:"alone,omitzero"`    // a process died while its model computed nothing else
	Holder   string `json:"holder,omitzero"`   // the process that scores it alone
	Delivery uint64 `json:"delivery,omitzero"` // at which the holder began
	Counted  string `json:"counted,omitzero"`  // the last process whose death counts in Deaths
}

func (s suspect) isolated() bool { return s.Deaths >= aloneAfter }
func (s suspect) fatal() bool    { return s.Alone || s.Deaths >= condemnAfter }

// suspectList is what is stored: the suspects by their sequence in a stream of
// responses, which is known by the time of its creation.
type suspectList struct {
	Created   int64              `json:"created"` // Unix nanoseconds
	Responses map[uint64]suspect `json:"responses"`
}

// suspects is the list that the replicas share. It holds a few responses for a
// short time: those of which it is not known yet what killed their process.
type suspects struct {
	state   *state
	created int64

	updating sync.Mutex // held by update, so that this process never competes with itself

	mu      sync.Mutex
	known   map[uint64]suspect // as last read
	settled []uint64           // to forget with the next write
}

// of returns what is known of a response. One that is delivered for the first
// time is looked up in what was read last: an embedded server may have forgotten
// a delivery, but then no other process shares it.
func (s *suspects) of(ctx context.Context, d *delivery) (suspect, error) {
	if d.redelivered() {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		if _, _, err := s.read(ctx); err != nil {
			return suspect{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[d.meta.Sequence.Stream], nil
}

func (s *suspects) read(ctx context.Context) (suspectList, uint64, error) {
	list, revision, err := load[suspectList](ctx, s.state, keySuspects)
	if err != nil {
		return list, 0, err
	}
	if list.Created != s.created || list.Responses == nil {
		list = suspectList{Created: s.created, Responses: map[uint64]suspect{}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = list.Responses
	return list, revision, nil
}

// update changes the list by compare-and-set. The change returns whether there is
// anything to write.
func (s *suspects) update(ctx context.Context, change func(map[uint64]suspect) bool) error {
	s.updating.Lock()
	defer s.updating.Unlock()
	return s.compareAndSet(ctx, change)
}

// compareAndSet needs updating.
func (s *suspects) compareAndSet(ctx context.Context, change func(map[uint64]suspect) bool) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		list, revision, err := s.read(ctx)
		if err != nil {
			return err
		}
		next := suspectList{Created: s.created, Responses: maps.Clone(list.Responses)}
		if !change(next.Responses) {
			return nil
		}
		_, err = store(ctx, s.state, keySuspects, next, revision)
		if errors.Is(err, retrain.ErrChanged) {
			continue
		}
		if err != nil {
			return err
		}
		s.mu.Lock()
		s.known = next.Responses
		s.mu.Unlock()
		return nil
	}
}

// record adds the death of a process, and drops the suspects before the given
// sequence, the first that is not settled. The same death counts once, although
// it is recorded at each start until a new journal replaces the one that names it.
func (s *suspects) record(ctx context.Context, left crashed, first uint64) error {
	err := s.update(ctx, func(all map[uint64]suspect) (changed bool) {
		for sequence, one := range all {
			if sequence < first {
				delete(all, sequence)
				changed = true
			} else if one.Holder != "" && one.Holder == left.owner {
				one.Holder = ""
				all[sequence], changed = one, true
			}
		}
		for sequence, alone := range left.sequences {
			if left.created != s.created || sequence < first {
				continue
			}
			one := all[sequence]
			if one.Counted == left.owner {
				continue
			}
			one.Deaths++
			one.Counted = left.owner
			one.Alone = one.Alone || alone
			all[sequence], changed = one, true
		}
		return changed
	})
	if err != nil {
		return fmt.Errorf("recording what the last process died with: %w", err)
	}
	return nil
}

// hold reserves a suspect for the process that is to score it alone, and reports
// whether it may.
func (s *suspects) hold(ctx context.Context, sequence uint64, holder string, delivery uint64) (held bool, err error) {
	err = s.update(ctx, func(all map[uint64]suspect) bool {
		one := all[sequence]
		if one.Holder != "" && one.Holder != holder && delivery < one.Delivery+heldDeliveries {
			held = false
			return false
		}
		one.Holder, one.Delivery = holder, delivery
		all[sequence], held = one, true
		return true
	})
	return held, err
}

// release ends hold.
func (s *suspects) release(ctx context.Context, sequence uint64, holder string) error {
	return s.update(ctx, func(all map[uint64]suspect) bool {
		one, ok := all[sequence]
		if !ok || one.Holder != holder {
			return false
		}
		one.Holder = ""
		all[sequence] = one
		return true
	})
}

// forget removes a response that is settled. All that settle while a write is
// in flight share the next one: after a process died, each response that it had
// in flight is a suspect, and they settle at about the same time.
func (s *suspects) forget(ctx context.Context, sequence uint64) error {
	s.mu.Lock()
	s.settled = append(s.settled, sequence)
	s.mu.Unlock()
	s.updating.Lock()
	defer s.updating.Unlock()
	s.mu.Lock()
	settled := s.settled
	s.settled = nil
	s.mu.Unlock()
	if len(settled) == 0 {
		return nil // another call took it along
	}
	return s.compareAndSet(ctx, func(all map[uint64]suspect) (changed bool) {
		for _, sequence := range settled {
			if _, ok := all[sequence]; ok {
				delete(all, sequence)
				changed = true
			}
		}
		return changed
	})
}
