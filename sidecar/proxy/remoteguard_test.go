package proxy_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	client "assay/clients/go"
	"assay/rewardmodel"
	"assay/rewardmodel/wire"
	"assay/sidecar/proxy"
)

// liveService is POST /v1/live over the rule of sentenceGuard.
func liveService(t *testing.T, opened chan<- rewardmodel.LiveRequest) *httptest.Server {
	t.Helper()
	guard := &sentenceGuard{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if r.URL.Path == "/readyz" {
			fmt.Fprint(w, `{"status":"ready"}`)
			return
		}
		control := http.NewResponseController(w)
		_ = control.EnableFullDuplex()
		w.Header().Set("Connection", "close") // what follows in the body is no request
		_ = control.Flush()
		send := func(line []byte, err error) {
			require.NoError(t, err)
			fmt.Fprintf(w, "%s\n", line)
			_ = control.Flush()
		}
		var session proxy.Session
		lines := bufio.NewScanner(r.Body)
		for lines.Scan() {
			m, err := wire.DecodeLiveMessage(lines.Bytes(), wire.Limits{})
			switch {
			case err != nil:
				send(wire.AppendLiveError(nil, "invalid", err.Error(), ""))
				return
			case m.Open != nil:
				opened <- *m.Open
				session, _ = guard.Open(r.Context(), m.Open.Prompt, func(e proxy.Event) {
					send(wire.AppendLiveEvent(nil, rewardmodel.LiveEvent{
						Utterance: rewardmodel.LiveUtterance{Start: e.Start, End: e.End, Violation: e.Violation, Violating: e.Violating},
						Violation: e.Text.Violation, Reward: e.Text.Reward, Compliant: e.Text.Compliant,
					}))
				})
				defer session.End()
			case m.Text != nil && *m.Text == "fail":
				send(wire.AppendLiveError(nil, "overloaded", "no room", ""))
				return
			case m.Text != nil:
				require.NoError(t, session.Feed(r.Context(), *m.Text))
			default:
				v, err := session.Close(r.Context())
				require.NoError(t, err)
				send(wire.AppendLiveResult(nil, rewardmodel.ScoreResponse{
					Model:   rewardmodel.ModelInfo{Version: v.Model},
					Results: []rewardmodel.Result{{Violation: v.Violation, Reward: v.Reward, Compliant: v.Compliant, Witness: &rewardmodel.Witness{Start: 9, End: 16, Violation: .9}}},
				}))
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestRemote(t *testing.T) {
	opened := make(chan rewardmodel.LiveRequest, 8)
	service := liveService(t, opened)
	connection, err := client.New(service.URL, client.WithToken("secret"))
	require.NoError(t, err)
	defer connection.Close()
	remote := proxy.NewRemote(connection, rewardmodel.ReasoningSkipOpened, time.Minute)
	require.NoError(t, remote.Ready(t.Context()))

	events := make(chan proxy.Event, 8)
	session, err := remote.Open(t.Context(), "Why?", func(e proxy.Event) { events <- e })
	require.NoError(t, err)
	open := <-opened
	require.Equal(t, "Why?", open.Prompt)
	require.Equal(t, rewardmodel.OffsetUTF8, open.Options.OffsetUnit)
	require.Equal(t, rewardmodel.ReasoningSkipOpened, open.Options.Reasoning)
	require.NoError(t, session.Feed(t.Context(), "Größe. A ZQ"))
	fine := proxy.Verdict{Violation: .1, Reward: .9, Compliant: true}
	require.Equal(t, proxy.Event{End: 8, Violation: .1, Text: fine}, <-events)
	require.NoError(t, session.Feed(t.Context(), "XJ. End"))
	bad := proxy.Verdict{Violation: .9, Reward: .1}
	require.Equal(t, proxy.Event{Start: 9, End: 16, Violation: .9, Violating: true, Text: bad}, <-events)
	verdict, err := session.Close(t.Context())
	require.NoError(t, err)
	bad.Model, bad.Witness = "test", &proxy.Witness{Start: 9, End: 16, Violation: .9}
	require.Equal(t, bad, verdict)
	require.Len(t, events, 1)
	session.End()
}

func TestRemoteFailures(t *testing.T) {
	service := liveService(t, make(chan rewardmodel.LiveRequest, 8))
	ignore := func(proxy.Event) {}
	open := func(base, token string) proxy.Session {
		connection, err := client.New(base, client.WithToken(token))
		require.NoError(t, err)
		t.Cleanup(connection.Close)
		session, err := proxy.NewRemote(connection, rewardmodel.ReasoningSkip, time.Minute).Open(t.Context(), "", ignore)
		if err != nil {
			return nil
		}
		t.Cleanup(session.End)
		return session
	}
	for name, c := range map[string]struct{ base, token, text, want string }{
		"token":       {service.URL, "other", "Fine.", "401"},
		"unreachable": {"http://127.0.0.1:1", "", "Fine.", "refused"},
		"error":       {service.URL, "secret", "fail", "no room"},
	} {
		t.Run(name, func(t *testing.T) {
			session := open(c.base, c.token)
			if session == nil {
				return // the connection failed while it was opened
			}
			err := session.Feed(t.Context(), c.text)
			if err == nil {
				_, err = session.Close(t.Context())
			}
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("canceled", func(t *testing.T) {
		session := open(service.URL, "secret")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := session.Close(ctx)
		require.Error(t, err)
	})
}
