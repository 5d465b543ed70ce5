package versions

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"assay/rewardmodel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLoader is a Loader for tests. Every version that starts with "v" exists and has
// its own margin.
type fakeLoader struct {
	t     testing.TB
	bytes int64
	reg   prometheus.Registerer
	gate  chan struct{} // if not nil, every load receives from it first
	model func(version string, batch []rewardmodel.Sequence)

	mu        sync.Mutex
	fail      map[string]error
	loads     []string
	inMemory  map[string]int // versions in memory
	maxLoaded int            // maximum of their number
}

func newFakeLoader(t testing.TB) *fakeLoader {
	s := &fakeLoader{t: t, bytes: 100, fail: map[string]error{}, inMemory: map[string]int{}}
	t.Cleanup(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		for version, n := range s.inMemory {
			if n != 0 {
				t.Errorf("%d of %s left in memory", n, version)
			}
		}
	})
	return s
}

func (s *fakeLoader) Load(ctx context.Context, version string, room func(int64) error) (Loaded, error) {
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
		return Loaded{}, fmt.Errorf("%w: %s", ErrUnknown, version)
	}
	if err := room(s.bytes); err != nil {
		return Loaded{}, err
	}
	return s.make(version), nil
}

// marginOf returns a margin in [-4,4] that identifies the version.
func marginOf(version string) float32 {
	h := fnv.New32a()
	h.Write([]byte(version))
	return float32(h.Sum32()%8001)/1000 - 4
}

// words is a tokenizer with one token per word: its length. It panics at the text panics.
type words struct{}

const panics = "tokenizer panics"

func (words) IDsContext(ctx context.Context, text string) ([]int32, error) {
	if text == panics {
		panic(panics)
	}
	var ids []int32
	for word := range strings.FieldsSeq(text) {
		ids = append(ids, int32(len(word)))
	}
	return ids, ctx.Err()
}

func (words) Frame(ids []int32) []int32 { return append(append([]int32{0}, ids...), 2) }
func (words) Special() int              { return 2 }

// modelFunc is a model for tests.
type modelFunc func(batch []rewardmodel.Sequence) ([]float32, error)

func (f modelFunc) Margins(batch []rewardmodel.Sequence) ([]float32, error) { return f(batch) }

// responses returns a request with one item per text.
func responses(texts ...string) rewardmodel.Request {
	var req rewardmodel.Request
	for _, text := range texts {
		req.Responses = append(req.Responses, rewardmodel.Item{Response: &text})
	}
	return req
}

func (s *fakeLoader) make(version string) Loaded {
	s.mu.Lock()
	s.inMemory[version]++
	if s.inMemory[version] > 1 {
		s.t.Errorf("%s is in memory twice", version)
	}
	held := 0
	for _, n := range s.inMemory {
		held += n
	}
	s.maxLoaded = max(s.maxLoaded, held)
	s.mu.Unlock()
	freed := false
	scorer, err := rewardmodel.NewScorer(rewardmodel.ScorerConfig{Version: version, ContextTokens: 8}, modelFunc(func(batch []rewardmodel.Sequence) ([]float32, error) {
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
		s.inMemory[version]--
		return nil
	}}
}

func (s *fakeLoader) loadCount(version string) int {
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
