package assay_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"strings"
	"testing"

	assay "assay/clients/go"
)

// liveService scripts the service: an event for each text, as soon as it arrives.
func liveService(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex()
	lines := bufio.NewScanner(r.Body)
	for i := -1; lines.Scan(); i++ {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, `{"open":`):
			w.Header().Set("Content-Type", "application/x-ndjson")
			w.WriteHeader(http.StatusOK)
		case strings.Contains(line, "fail"):
			_, _ = fmt.Fprintln(w, `{"error":{"code":"idle","message":"scripted"}}`)
			return
		case strings.Contains(line, "revoke"):
			_, _ = fmt.Fprintln(w, `{"error":{"code":"unauthorized","message":"scripted"}}`)
			return
		case strings.HasPrefix(line, `{"close":`):
			_, _ = fmt.Fprintf(w, `{"result":%s,"model":{"name":"m","version":"v1"},"offset_unit":"utf8"}`+"\n", result("r1", "0.25"))
			return
		default:
			_, _ = fmt.Fprintf(w, `{"utterance":{"index":%d,"start":0,"end":1,"text":"x","violation":0.9},"violation":0.9,"reward":0.1,"compliant":false,"stop":true}`+"\n", i)
		}
		_ = control.Flush()
	}
}

func TestLiveSession(t *testing.T) {
	c := client(t, serve(t, liveService))
	l, err := c.Live(t.Context(), assay.LiveOptions{ID: "r1", Prompt: "Hi", Options: assay.Options{Reward: assay.RewardRaw}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 { // each event arrives before the next text
		if err := l.Send("One. "); err != nil {
			t.Fatal(err)
		}
		for event, err := range l.Events() {
			if err != nil || event.Utterance.Index != i || !event.Stop || event.Violation != 0.9 {
				t.Fatalf("%+v, %v", event, err)
			}
			break
		}
	}
	if err := l.Send("Four."); err != nil {
		t.Fatal(err)
	}
	r, err := l.Close()
	if err != nil || r.ID != "r1" || r.Reward != 0.25 || r.Model.Version != "v1" {
		t.Fatalf("%+v, %v", r, err)
	}
	n := 0
	for _, err := range l.Events() {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d events after Close", n)
	}
	l.Stop()
}

func TestLiveSessionFails(t *testing.T) {
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		text    string
		want    error
	}{
		"refused":  {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 503, "overloaded", "") }, "x", assay.ErrUnavailable},
		"no token": {func(w http.ResponseWriter, _ *http.Request) { refuse(w, 401, "unauthorized", "") }, "x", assay.ErrUnauthorized},
		"fails":    {liveService, "fail", assay.ErrUnavailable},
		"revoked":  {liveService, "revoke", assay.ErrUnauthorized},
		"cut":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }, "x", io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := client(t, serve(t, test.handler)).Live(t.Context(), assay.LiveOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for err == nil { // until the service has responded
				err = l.Send(test.text)
			}
			if !errors.Is(err, test.want) {
				t.Errorf("Send: %v", err)
			}
			if _, err := l.Close(); !errors.Is(err, test.want) {
				t.Errorf("Close: %v", err)
			}
			for _, err := range l.Events() {
				if !errors.Is(err, test.want) {
					t.Errorf("Events: %v", err)
				}
			}
		})
	}
	c := client(t, serve(t, liveService))
	if _, err := c.Live(t.Context(), assay.LiveOptions{Prompt: "\xff"}); err == nil {
		t.Error("an invalid prompt is accepted")
	}
}

func TestLiveSessionStops(t *testing.T) {
	l, err := client(t, serve(t, liveService)).Live(t.Context(), assay.LiveOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Send("One."); err != nil {
		t.Fatal(err)
	}
	l.Stop()
	if _, err := l.Close(); err == nil {
		t.Error("there is a result")
	}
}

func ExampleClient_Live() {
	service := example()
	defer service.Close()
	client, _ := assay.New(service.URL)
	defer client.Close()
	session, _ := client.Live(context.Background(), assay.LiveOptions{ID: "r1"})
	go func() {
		for _, token := range []string{"You ", "are a ", "fool."} { // as they are generated
			if session.Send(token) != nil {
				return
			}
		}
		_, _ = session.Close() // ends Events
	}()
	for event, err := range session.Events() {
		if err != nil || !event.Compliant {
			fmt.Printf("stop generating: %.2f\n", event.Violation)
			break
		}
	}
	session.Stop()
	// Output: stop generating: 0.90
}

// A response that is compliant to its end has a result.
func ExampleLive_Close() {
	service := example()
	defer service.Close()
	client, _ := assay.New(service.URL)
	defer client.Close()
	session, _ := client.Live(context.Background(), assay.LiveOptions{ID: "r1"})
	defer session.Stop()
	go func() {
		for _, token := range []string{"Good ", "idea."} {
			if session.Send(token) != nil {
				return
			}
		}
		_, _ = session.Close()
	}()
	for _, err := range session.Events() { // until Close
		if err != nil {
			log.Fatal(err)
		}
	}
	result, _ := session.Close() // the same
	fmt.Printf("%.2f\n", result.Reward)
	// Output: 0.25
}
