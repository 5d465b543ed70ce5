package poison

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"assay/queue/internal/js"
)

// keySuspects is the key of ASSAY_STATE with the responses that were in flight
// when a process died.
const keySuspects = "suspects"

const (
	// IsolateAfter is the number of deaths after which a response is scored in
	// isolation: until then it is one of many that were in flight.
	IsolateAfter = 3

	// FatalAfter is the number of deaths after which a response is dead-lettered
	// although no process died in a model call for it only: the process crashes
	// before that call, for example because its tokens exhaust the memory.
	FatalAfter = 2 * IsolateAfter

	// holdDeliveries is the number of deliveries for which a suspect waits for the
	// process that holds it, or for the next process that uses the journal of one
	// that crashed because of it.
	holdDeliveries = 10
)

// Suspect is a response that was in flight when a process died.
type Suspect struct {
	Deaths   int    `json:"deaths"`
	Alone    bool   `json:"alone,omitzero"`    // a process died while its model computed only this response
	Holder   string `json:"holder,omitzero"`   // the process that scores it in isolation
	Delivery uint64 `json:"delivery,omitzero"` // at which the holder started
	Counted  string `json:"counted,omitzero"`  // the last process whose death counts in Deaths
}

// Isolated reports whether the response must be scored in isolation.
func (s Suspect) Isolated() bool { return s.Deaths >= IsolateAfter }

// Fatal reports whether the response must not be scored again.
func (s Suspect) Fatal() bool { return s.Alone || s.Deaths >= FatalAfter }

// suspectList is the stored JSON: the suspects by their sequence in a stream of
// responses, which is identified by the time of its creation.
type suspectList struct {
	Created   int64              `json:"created"` // Unix nanoseconds
	Responses map[uint64]Suspect `json:"responses"`
}

// Suspects is the list of suspects that the replicas share. It holds a few responses
// for a short time, until it is known which of them killed a process.
type Suspects struct {
	kv      *js.KeyValue
	created int64

	updating sync.Mutex // held by update, so that a process does not compete with itself

	mu        sync.Mutex
	known     map[uint64]Suspect // as last read
	completed []uint64           // to forget with the next write
}

// NewSuspects returns the list for a stream of responses that was created at a time.
func NewSuspects(kv *js.KeyValue, created time.Time) *Suspects {
	return &Suspects{kv: kv, created: created.UnixNano()}
}

// Covers reports whether the list belongs to the stream that was created at a time.
func (s *Suspects) Covers(created time.Time) bool { return s.created == created.UnixNano() }

// Of returns the entry of a response. For one that is delivered for the first time
// the list as last read is enough: an embedded server may have forgotten a delivery,
// but then no other process shares the list.
func (s *Suspects) Of(ctx context.Context, sequence uint64, redelivered bool) (Suspect, error) {
	if redelivered {
		ctx, cancel := context.WithTimeout(ctx, js.RequestTimeout)
		defer cancel()
		if _, _, err := s.read(ctx); err != nil {
			return Suspect{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[sequence], nil
}

func (s *Suspects) read(ctx context.Context) (suspectList, uint64, error) {
	list, revision, err := js.Load[suspectList](ctx, s.kv, keySuspects)
	if err != nil {
		return list, 0, err
	}
	if list.Created != s.created || list.Responses == nil {
		list = suspectList{Created: s.created, Responses: map[uint64]Suspect{}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = list.Responses
	return list, revision, nil
}

// update changes the list by compare-and-set. change returns whether there is anything
// to write.
func (s *Suspects) update(ctx context.Context, change func(map[uint64]Suspect) bool) error {
	s.updating.Lock()
	defer s.updating.Unlock()
	return s.compareAndSet(ctx, change)
}

// compareAndSet needs updating.
func (s *Suspects) compareAndSet(ctx context.Context, change func(map[uint64]Suspect) bool) error {
	ctx, cancel := context.WithTimeout(ctx, js.RequestTimeout)
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
		_, err = js.Store(ctx, s.kv, keySuspects, next, revision)
		if errors.Is(err, js.ErrChanged) {
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

// Record adds the death of a process, and drops the suspects before first, the first
// sequence that is not completed. The same death counts once, although each start
// records it until a new journal replaces the one of the dead process.
func (s *Suspects) Record(ctx context.Context, left Crash, first uint64) error {
	err := s.update(ctx, func(all map[uint64]Suspect) (changed bool) {
		for sequence, one := range all {
			if sequence < first {
				delete(all, sequence)
				changed = true
			} else if one.Holder != "" && one.Holder == left.Owner {
				one.Holder = ""
				all[sequence], changed = one, true
			}
		}
		for sequence, alone := range left.Sequences {
			if left.Created != s.created || sequence < first {
				continue
			}
			one := all[sequence]
			if one.Counted == left.Owner {
				continue
			}
			one.Deaths++
			one.Counted = left.Owner
			one.Alone = one.Alone || alone
			all[sequence], changed = one, true
		}
		return changed
	})
	if err != nil {
		return fmt.Errorf("recording the responses in flight of the last process: %w", err)
	}
	return nil
}

// Hold reserves a suspect for the process that will score it in isolation, and reports
// whether that succeeded.
func (s *Suspects) Hold(ctx context.Context, sequence uint64, holder string, delivery uint64) (held bool, err error) {
	err = s.update(ctx, func(all map[uint64]Suspect) bool {
		one := all[sequence]
		if one.Holder != "" && one.Holder != holder && delivery < one.Delivery+holdDeliveries {
			held = false
			return false
		}
		one.Holder, one.Delivery = holder, delivery
		all[sequence], held = one, true
		return true
	})
	return held, err
}

// Release ends Hold.
func (s *Suspects) Release(ctx context.Context, sequence uint64, holder string) error {
	return s.update(ctx, func(all map[uint64]Suspect) bool {
		one, ok := all[sequence]
		if !ok || one.Holder != holder {
			return false
		}
		one.Holder = ""
		all[sequence] = one
		return true
	})
}

// Forget removes a completed response. Those that complete while a write is in flight
// share the next write: after a process died, each response that it had in flight is a
// suspect, and they complete at about the same time.
func (s *Suspects) Forget(ctx context.Context, sequence uint64) error {
	s.mu.Lock()
	s.completed = append(s.completed, sequence)
	s.mu.Unlock()
	s.updating.Lock()
	defer s.updating.Unlock()
	s.mu.Lock()
	completed := s.completed
	s.completed = nil
	s.mu.Unlock()
	if len(completed) == 0 {
		return nil // another call removed it
	}
	return s.compareAndSet(ctx, func(all map[uint64]Suspect) (changed bool) {
		for _, sequence := range completed {
			if _, ok := all[sequence]; ok {
				delete(all, sequence)
				changed = true
			}
		}
		return changed
	})
}
