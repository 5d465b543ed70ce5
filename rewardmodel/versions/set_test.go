package versions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"assay/rewardmodel"
)

// newSet returns a set that serves v1 and is closed at the end of the test.
func newSet(t testing.TB, cfg Config, s *fakeLoader) *Set {
	t.Helper()
	v, err := New(cfg, s, s.reg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	gate := s.gate
	s.gate = nil
	if err := v.Promote(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	s.gate, s.loads = gate, nil
	return v
}

// pin scores with a version and checks that all results are from the version that
// the response names.
func pin(ctx context.Context, v *Set, model string) (string, error) {
	req := responses("One. Two.", "Three.")
	req.Model = model
	response, err := v.Score(ctx, req)
	if err != nil {
		return "", err
	}
	for _, r := range response.Results {
		if want := rewardmodel.Violation(marginOf(response.Model.Version)); r.Violation != want {
			return "", fmt.Errorf("the response of %s has a violation of %v, not %v", response.Model.Version, r.Violation, want)
		}
	}
	return response.Model.Version, nil
}

func wantPin(t *testing.T, v *Set, model, want string) {
	t.Helper()
	if got, err := pin(t.Context(), v, model); err != nil || got != want {
		t.Errorf("%q is scored by %q (%v), want %s", model, got, err, want)
	}
}

// listed returns the versions in one line, the current one first and with a star.
func listed(v *Set) string {
	var parts []string
	for _, s := range v.List() {
		part := s.Version
		switch {
		case s.Current:
			part += "*"
		case s.Error != "":
			part += "!"
		case !s.Loaded:
			part += "?"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

func wantListed(t *testing.T, v *Set, want string) {
	t.Helper()
	if got := listed(v); got != want {
		t.Errorf("versions are %q, want %q", got, want)
	}
}

func TestSetPins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeLoader(t)
		v := newSet(t, Config{}, s)
		if got := v.Current(); got != (rewardmodel.ModelInfo{Name: "assay", Version: "v1"}) {
			t.Errorf("current is %v", got)
		}
		wantPin(t, v, "", "v1")
		wantPin(t, v, "assay", "v1")
		wantPin(t, v, "v1", "v1")
		wantPin(t, v, "v2", "v2")
		wantPin(t, v, "v2", "v2")
		wantListed(t, v, "v1* v2")
		wantPin(t, v, "v3", "v3") // evicts v2
		synctest.Wait()
		wantListed(t, v, "v1* v3")
		if s.loadCount("v2") != 1 || s.maxLoaded != 2 {
			t.Errorf("v2 was loaded %d times, %d concurrently", s.loadCount("v2"), s.maxLoaded)
		}

		var input *rewardmodel.InputError
		for range 3 {
			if _, err := pin(t.Context(), v, "other"); !errors.As(err, &input) || input.Kind != rewardmodel.KindNotFound || input.Field != "model" {
				t.Errorf("an unknown version: %v", err)
			}
		}
		wantListed(t, v, "v1* v3")
		<-time.After(6 * time.Second)
		_, _ = pin(t.Context(), v, "other")
		if n := s.loadCount("other"); n != 2 {
			t.Errorf("an unknown version was looked for %d times", n)
		}
		if _, err := v.Score(t.Context(), rewardmodel.Request{Model: "v9"}); !errors.As(err, &input) || s.loadCount("v9") != 0 {
			t.Errorf("a bad request loads a model: %v", err)
		}
	})
}

func TestSetRememberFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeLoader(t)
		v := newSet(t, Config{}, s)
		s.fail["v2"] = errors.New("damaged")
		var full *rewardmodel.OverloadedError
		for range 3 {
			if _, err := pin(t.Context(), v, "v2"); !errors.Is(err, ErrLoad) || !errors.As(err, &full) || !strings.Contains(err.Error(), "damaged") {
				t.Errorf("a damaged version: %v", err)
			}
		}
		wantListed(t, v, "v1* v2!")
		if s.loadCount("v2") != 1 {
			t.Errorf("loaded %d times", s.loadCount("v2"))
		}
		if err := v.Promote(t.Context(), "v2"); !errors.Is(err, ErrLoad) { // the failed load is not cached
			t.Error(err)
		}
		if s.loadCount("v2") != 2 {
			t.Errorf("loaded %d times", s.loadCount("v2"))
		}
		delete(s.fail, "v2")
		<-time.After(6 * time.Second)
		wantPin(t, v, "v2", "v2")
		for i := range 2 * maxFailures {
			_, _ = pin(t.Context(), v, fmt.Sprint("none", i))
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.known) > maxFailures+3 {
			t.Errorf("%d versions are remembered", len(v.known))
		}
	})
}

func TestSetLoadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeLoader(t)
		s.gate = make(chan struct{})
		v := newSet(t, Config{}, s)
		hurry, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := pin(hurry, v, "v2"); !errors.Is(err, context.Canceled) {
				t.Errorf("who left got %v", err)
			}
		})
		for range 20 {
			wg.Go(func() { wantPin(t, v, "v2", "v2") })
		}
		synctest.Wait()
		wantListed(t, v, "v1* v2?")
		cancel()
		wantPin(t, v, "", "v1") // continues during the load
		synctest.Wait()
		close(s.gate)
		wg.Wait()
		if s.loadCount("v2") != 1 {
			t.Errorf("loaded %d times", s.loadCount("v2"))
		}
	})
}

func TestSetBoundLoads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeLoader(t)
		s.gate = make(chan struct{})
		v := newSet(t, Config{}, s)
		var wg sync.WaitGroup
		for i := range maxLoads {
			wg.Go(func() { _, _ = pin(t.Context(), v, fmt.Sprint("none", i)) })
		}
		synctest.Wait()
		if _, err := pin(t.Context(), v, "v2"); !errors.Is(err, rewardmodel.ErrOverloaded) {
			t.Errorf("one load too many: %v", err)
		}
		close(s.gate)
		wg.Wait()
	})
}

func TestPromote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeLoader(t)
		v := newSet(t, Config{}, s)
		if err := v.Promote(t.Context(), "v2"); err != nil {
			t.Fatal(err)
		}
		wantPin(t, v, "", "v2")
		wantPin(t, v, "v1", "v1")
		wantListed(t, v, "v2* v1")
		s.fail["v3"] = errors.New("damaged")
		for version, want := range map[string]error{"v3": ErrLoad, "other": ErrUnknown} {
			if err := v.Promote(t.Context(), version); !errors.Is(err, want) {
				t.Errorf("%s: %v", version, err)
			}
		}
		wantListed(t, v, "v2* v1 v3!")
		if err := v.Promote(t.Context(), "v1"); err != nil { // roll back
			t.Fatal(err)
		}
		if err := v.Promote(t.Context(), "v1"); err != nil { // again
			t.Fatal(err)
		}
		wantListed(t, v, "v1* v2 v3!")
		if s.loadCount("v2") != 1 || s.loadCount("v1") != 0 {
			t.Error("rolling back loaded something")
		}
		if err := v.Promote(t.Context(), "v4"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		wantListed(t, v, "v4* v1 v3!")
		if err := v.Close(); err != nil {
			t.Error(err)
		}
		if err := v.Promote(t.Context(), "v5"); !errors.Is(err, rewardmodel.ErrClosed) {
			t.Error(err)
		}
		if _, err := pin(t.Context(), v, ""); !errors.Is(err, rewardmodel.ErrClosed) {
			t.Error(err)
		}
	})
}

// A promotion while a pinned version is in use, with decreasing limits.
func TestPromoteWithinLimits(t *testing.T) {
	for name, c := range map[string]struct {
		bytes     int64
		maxLoaded int
		waits     bool // until the pinned version's last request
	}{
		"no limit":        {0, 3, false},
		"three fit":       {300, 3, false},
		"two fit":         {200, 2, true},
		"not even two do": {100, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newFakeLoader(t)
				hold := make(chan struct{})
				s.model = func(version string, _ []rewardmodel.Sequence) {
					if version == "v0" {
						<-hold
					}
				}
				v := newSet(t, Config{MaxBytes: 400}, s)
				var wg sync.WaitGroup
				wg.Go(func() { wantPin(t, v, "v0", "v0") })
				synctest.Wait()
				v.config.MaxBytes = c.bytes
				promoted := false
				wg.Go(func() {
					if err := v.Promote(t.Context(), "v2"); err != nil {
						t.Error(err)
					}
					promoted = true
				})
				synctest.Wait()
				if promoted == c.waits {
					t.Errorf("promoted %v with v0 in use", promoted)
				}
				wantPin(t, v, "assay", v.Current().Version)
				if c.bytes == 200 {
					wg.Go(func() { wantPin(t, v, "v0", "v0") }) // waits until it is loaded again
					synctest.Wait()
				}
				close(hold)
				wg.Wait()
				synctest.Wait()
				if s.maxLoaded != c.maxLoaded || v.Current().Version != "v2" {
					t.Errorf("%d in memory concurrently, %s is current", s.maxLoaded, v.Current().Version)
				}
				held := v.held(resident)
				if c.bytes >= 200 && held.bytes > c.bytes || held.count > 2 {
					t.Errorf("%+v stay loaded", held)
				}
			})
		})
	}
}

func TestNoRoomForAPin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeLoader(t)
		hold := make(chan struct{})
		s.model = func(string, []rewardmodel.Sequence) { <-hold }
		v := newSet(t, Config{}, s)
		var wg sync.WaitGroup
		wg.Go(func() { wantPin(t, v, "v2", "v2") })
		synctest.Wait()
		_, err := pin(t.Context(), v, "v3")
		var full *rewardmodel.OverloadedError
		if !errors.As(err, &full) || full.RetryAfter <= 0 || !strings.Contains(err.Error(), "memory") {
			t.Errorf("no room: %v", err)
		}
		close(hold)
		wg.Wait()
		wantPin(t, v, "v3", "v3") // immediately: the failure was not cached

		v.config.MaxBytes = 150
		if _, err := pin(t.Context(), v, "v4"); !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), "raise") {
			t.Errorf("it can never fit: %v", err)
		}
	})
}

func TestSetCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newFakeLoader(t)
		hold := make(chan struct{})
		s.model = func(string, []rewardmodel.Sequence) { <-hold }
		v := newSet(t, Config{}, s)
		var wg sync.WaitGroup
		wg.Go(func() { wantPin(t, v, "", "v1") })
		synctest.Wait()
		s.gate = make(chan struct{})
		wg.Go(func() {
			if _, err := pin(t.Context(), v, "v2"); !errors.Is(err, rewardmodel.ErrClosed) {
				t.Errorf("being loaded: %v", err)
			}
		})
		synctest.Wait()
		closed := false
		wg.Go(func() { _ = v.Close(); closed = true })
		synctest.Wait()
		if closed {
			t.Error("closed with a request in flight")
		}
		close(hold)
		wg.Wait()
	})
}

func TestSetBeforeTheFirstPromotion(t *testing.T) {
	for _, cfg := range []Config{{MaxLoaded: 1}, {MaxBytes: -1}, {RememberFor: -1}} {
		if _, err := New(cfg, newFakeLoader(t), nil); err == nil {
			t.Errorf("%+v is accepted", cfg)
		}
	}
	s := newFakeLoader(t)
	v, err := New(Config{}, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range []string{"", "v1"} {
		if _, err := pin(t.Context(), v, model); !errors.Is(err, ErrNotLoaded) {
			t.Error(err)
		}
	}
	if v.Current() != (rewardmodel.ModelInfo{}) || len(v.List()) != 0 {
		t.Error("a set without a promotion has a model")
	}
	for _, version := range []string{"v1", "v2"} {
		if err := v.Promote(t.Context(), version); err != nil {
			t.Fatal(err)
		}
	}
	wantListed(t, v, "v2* v1")
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
}
