package rewardmodel

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// shelf is a Loader for tests. Every version that begins with "v" exists and
// has a margin of its own.
type shelf struct {
	t     testing.TB
	bytes int64
	reg   prometheus.Registerer
	gate  chan struct{} // nil, or what every load waits for
	model func(version string, batch [][]int32)

	mu     sync.Mutex
	fail   map[string]error
	loads  []string
	inside map[string]int // versions in memory
	most   int            // of these, at once
}

func newShelf(t testing.TB) *shelf {
	s := &shelf{t: t, bytes: 100, fail: map[string]error{}, inside: map[string]int{}}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for version, n := range s.inside {
			if n != 0 {
				t.Errorf("%d of %s left in memory", n, version)
			}
		}
	})
	return s
}

func (s *shelf) Load(ctx context.Context, version string, room func(int64) error) (Loaded, error) {
	s.mu.Lock()
	s.loads = append(s.loads, version)
	err := s.fail[version]
	s.mu.Unlock()
	if s.gate != nil {
		select {
		case <-s.gate:
		case <-ctx.Done():
			return Loaded{}, ctx.Err()
		}
	}
	if err != nil {
		return Loaded{}, err
	}
	if !strings.HasPrefix(version, "v") {
		return Loaded{}, fmt.Errorf("%w: %s", ErrUnknownVersion, version)
	}
	if err := room(s.bytes); err != nil {
		return Loaded{}, err
	}
	return s.make(version), nil
}

// marginOf tells the versions apart.
func marginOf(version string) float32 { return hashMargin(words{}.IDs(version)) }

func (s *shelf) make(version string) Loaded {
	s.mu.Lock()
	s.inside[version]++
	if s.inside[version] > 1 {
		s.t.Errorf("%s is in memory twice", version)
	}
	held := 0
	for _, n := range s.inside {
		held += n
	}
	s.most = max(s.most, held)
	s.mu.Unlock()
	freed := false
	scorer, err := NewScorer(ScorerConfig{Version: version}, modelFunc(func(batch [][]int32) ([]float32, error) {
		if freed {
			s.t.Errorf("%s scores after it was freed", version)
		}
		if s.model != nil {
			s.model(version, batch)
		}
		margins := make([]float32, len(batch))
		for i := range margins {
			margins[i] = marginOf(version)
		}
		return margins, nil
	}), words{}, s.reg)
	if err != nil {
		s.t.Error(err)
	}
	return Loaded{Scorer: scorer, Labels: []string{"a", "b"}, Bytes: s.bytes, Free: func() error {
		if freed {
			s.t.Errorf("%s is freed twice", version)
		}
		freed = true
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside[version]--
		return nil
	}}
}

func (s *shelf) loaded(version string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, l := range s.loads {
		if l == version {
			n++
		}
	}
	return n
}
