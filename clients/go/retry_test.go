package assay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	assay "assay/clients/go"
)

// After any transient fault, the client retries and returns the reward of the
// successful attempt.
func TestTransientFaults(t *testing.T) {
	good := answer(result("a", "0.75"))
	faults := map[string]http.HandlerFunc{
		"overloaded":                    func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "overloaded", "") },
		"deadline exceeded":             func(w http.ResponseWriter, _ *http.Request) { refuse(w, 504, "deadline_exceeded", "") },
		"bad gateway":                   func(w http.ResponseWriter, _ *http.Request) { reply(w, 502, "<html>nginx</html>") },
		"connection closed":             func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"connection closed in the body": cut(good),
		"hangs":                         func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-r.Context().Done() },
		"hangs in the body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, good[:40])
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		},
		"page of a proxy": func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, "<html>welcome</html>") },
		"truncated JSON":  func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, good[:60]) },
		"NaN":             func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, answer(result("a", "NaN"))) },
		"infinity":        func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, answer(result("a", "1e999"))) },
		"null":            func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, answer(result("a", "null"))) },
		"string":          func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, answer(result("a", `"0.5"`))) },
		"missing reward": func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, strings.Replace(good, `"reward":0.75,`, "", 1))
		},
		"no results": func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, answer()) },
		"too many results": func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 200, answer(result("a", "1"), result("b", "1")))
		},
		"wrong id":               func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, answer(result("b", "1"))) },
		"missing version":        func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, strings.Replace(good, "v1", "", 1)) },
		"violation out of range": func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, strings.ReplaceAll(good, "0.25", "7")) },
		"empty body":             func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, "") },
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) <= 2 {
					fault(w, r)
					return
				}
				reply(w, 200, good)
			})
			item := assay.Text("fine")
			item.ID = "a"
			c := client(t, url, assay.WithTimeout(300*time.Millisecond))
			a, err := c.Score(t.Context(), []assay.Item{item}, assay.Options{})
			if err != nil || a.Results[0].Reward != 0.75 || requests.Load() != 3 {
				t.Errorf("%+v, %v after %d requests", a, err, requests.Load())
			}

			// Without retries, the fault is an error.
			requests.Store(0)
			c = client(t, url, assay.WithTimeout(300*time.Millisecond), assay.WithRetry(assay.Retry{}))
			results, err := c.ScoreAll(t.Context(), []assay.Item{item}, assay.Options{})
			var apiErr *assay.APIError
			var transportErr *assay.TransportError
			var invalid *assay.InvalidResponseError
			if results != nil || !errors.As(err, &apiErr) && !errors.As(err, &transportErr) && !errors.As(err, &invalid) || requests.Load() != 1 {
				t.Errorf("%v, %v after %d requests", results, err, requests.Load())
			}
		})
	}
}

// cut sends half of a response body and closes the connection.
func cut(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = io.WriteString(w, body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

func TestPermanentFailures(t *testing.T) {
	for status, kind := range map[int]error{
		400: assay.ErrInvalid, 401: assay.ErrUnauthorized, 403: assay.ErrUnauthorized, 404: assay.ErrNotFound,
		413: assay.ErrInvalid, 422: assay.ErrInvalid, 500: nil, 501: assay.ErrNotEnabled, 307: nil,
	} {
		var requests atomic.Int32
		c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			refuse(w, status, "code", "")
		}))
		_, err := c.Score(t.Context(), assay.Texts("a"), assay.Options{})
		var apiErr *assay.APIError
		if !errors.As(err, &apiErr) || apiErr.Status != status || requests.Load() != 1 || kind != nil && !errors.Is(err, kind) {
			t.Errorf("%d: %v after %d requests", status, err, requests.Load())
		}
		if status == 307 && !strings.Contains(err.Error(), "elsewhere") {
			t.Error(err)
		}
	}
}

// The retry policy limits the attempts that end in an invalid response.
func TestMaxInvalidResponses(t *testing.T) {
	var requests atomic.Int32
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { requests.Add(1); reply(w, 200, "{}") }))
	_, err := c.Models(t.Context())
	var invalid *assay.InvalidResponseError
	if !errors.As(err, &invalid) || requests.Load() != 3 {
		t.Error(err, requests.Load())
	}
}

// Other failures do not count towards that limit: a service that restarts behind a proxy
// may cause both.
func TestOnlyInvalidResponsesCount(t *testing.T) {
	var requests atomic.Int32
	c := client(t, serve(t, func(w http.ResponseWriter, _ *http.Request) {
		switch n := requests.Add(1); {
		case n > 6:
			reply(w, 200, `{"data":[]}`)
		case n%3 == 0:
			reply(w, 200, "<html>welcome</html>")
		default:
			refuse(w, 503, "not_ready", "")
		}
	}))
	if _, err := c.Models(t.Context()); err != nil || requests.Load() != 7 {
		t.Error(err, requests.Load())
	}
}

// Requests that change models are retried only if they have not been applied.
func TestChangesAreNotRetried(t *testing.T) {
	for name, x := range map[string]struct {
		fault    http.HandlerFunc
		requests int32
	}{
		"overloaded":        {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "overloaded", "") }, 2},
		"not ready":         {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "not_ready", "") }, 2},
		"unavailable":       {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "unavailable", "") }, 1},
		"proxy":             {func(w http.ResponseWriter, _ *http.Request) { reply(w, 503, "upstream") }, 1},
		"deadline exceeded": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 504, "deadline_exceeded", "") }, 1},
		"connection closed": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 1},
		"truncated":         {cut(`{"version":"v1"}`), 1},
		"invalid response":  {func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, "{}") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) == 1 {
					x.fault(w, r)
					return
				}
				reply(w, 200, `{"version":"v1","since":"2026-01-01T00:00:00Z","by":"me","reason":""}`)
			}))
			current, err := c.Rollback(t.Context(), "")
			if requests.Load() != x.requests || (err == nil) != (x.requests == 2) || err == nil && current.Version != "v1" {
				t.Errorf("%v, %v after %d requests", current, err, requests.Load())
			}
		})
	}
}

// A refused connection proves that the service has not received the request.
func TestConnectionRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	c := client(t, "http://"+address, assay.WithRetry(assay.Retry{}))
	_, err = c.Rollback(t.Context(), "")
	var transportErr *assay.TransportError
	if !errors.As(err, &transportErr) || transportErr.Sent {
		t.Fatal(err)
	}
	if err := c.Ready(t.Context()); !errors.As(err, &transportErr) {
		t.Fatal(err)
	}

	done := make(chan error, 1)
	go func() {
		_, err := client(t, "http://"+address).Rollback(t.Context(), "")
		done <- err
	}()
	for err != nil { // until the port is free again
		if l, err = net.Listen("tcp", address); err != nil {
			t.Log(err)
		}
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, `{"version":"v1","since":"2026-01-01T00:00:00Z","by":"me","reason":""}`)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	defer s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// respondFunc responds to the nth request without a network, so that tests can run in
// synctest.
type respondFunc func(n int, r *http.Request) (*http.Response, error)

type fakeTransport struct {
	n       int
	respond respondFunc
}

func (f *fakeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	f.n++
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		r.Body.Close()
	}
	return f.respond(f.n, r)
}

func newResponse(status int, body string, headers ...string) (*http.Response, error) {
	a := &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
	for i := 0; i < len(headers); i += 2 {
		a.Header.Set(headers[i], headers[i+1])
	}
	return a, nil
}

// offlineClient returns a client whose requests respond handles.
func offlineClient(t *testing.T, respond respondFunc, options ...assay.Option) *assay.Client {
	t.Helper()
	c, err := assay.New("http://assay", append([]assay.Option{assay.WithHTTPClient(&http.Client{Transport: &fakeTransport{respond: respond}})}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var times []time.Time
		c := offlineClient(t, func(int, *http.Request) (*http.Response, error) {
			times = append(times, time.Now())
			return newResponse(503, `{"error":{"code":"overloaded","message":"full"}}`)
		})
		start := time.Now()
		_, err := c.Models(t.Context())
		if !errors.Is(err, assay.ErrUnavailable) {
			t.Fatal(err)
		}
		if spent := time.Since(start); spent > 5*time.Minute || spent < 4*time.Minute+45*time.Second {
			t.Errorf("the last attempt was after %v", spent)
		}
		for i, limit := range []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
			if pause := times[i+1].Sub(times[i]); pause < limit/2 || pause > limit+1 {
				t.Errorf("pause %d is %v, not between half of %v and all of it", i, pause, limit)
			}
		}
	})
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, value := range []string{"7", time.Now().Add(15 * time.Second).UTC().Format(http.TimeFormat)} { // the second is used after 7 s
			c := offlineClient(t, func(n int, _ *http.Request) (*http.Response, error) {
				if n == 1 {
					return newResponse(503, `{"error":{"code":"overloaded","message":"full"}}`, "Retry-After", value)
				}
				return newResponse(200, `{"data":[]}`)
			})
			start := time.Now()
			if _, err := c.Models(t.Context()); err != nil {
				t.Fatal(err)
			}
			if spent := time.Since(start); spent < 7*time.Second || spent > 9*time.Second {
				t.Errorf("Retry-After %s: %v", value, spent)
			}
		}
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var timeouts []string
		hang := func(_ int, r *http.Request) (*http.Response, error) {
			timeouts = append(timeouts, r.Header.Get("X-Request-Timeout"))
			<-r.Context().Done()
			return nil, r.Context().Err()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		c := offlineClient(t, hang, assay.WithTimeout(10*time.Second))
		start := time.Now()
		_, err := c.Models(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 25*time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if len(timeouts) != 3 || timeouts[0] != "10.000" || timeouts[2] > "5.000" && len(timeouts[2]) == 5 {
			t.Error(timeouts)
		}

		// The client does not start a backoff that exceeds the deadline.
		full := func(int, *http.Request) (*http.Response, error) {
			return newResponse(503, `{"error":{"code":"overloaded","message":"full"}}`, "Retry-After", "60")
		}
		ctx, cancel = context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		start = time.Now()
		_, err = offlineClient(t, full).Models(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, assay.ErrUnavailable) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}
