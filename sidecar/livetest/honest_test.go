package livetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"

	"assay/internal/errorcode"
)

// prose has sentences that violate and characters of all lengths.
const prose = "The weather is fine today. Größe is no ### matter, dear reader! 今日は晴れです。 One 🙂 #smile. And so it ends here, in peace"

// failure is the error event that ended a session.
type failure struct{ code, message string }

func (f *failure) Error() string { return f.code + ": " + f.message }

// is reports whether the session ended with a code; that of gRPC is the code of a status.
func (f *failure) is(code errorcode.Code) bool {
	return f.code == string(code) || f.code == code.GRPC().String()
}

// finish reads the events until the last one. Without a result its error is a *failure.
func finish(c session) (events []event, final result, err error) {
	for {
		e, err := c.receive()
		switch {
		case err != nil:
			return events, result{}, fmt.Errorf("the session ended silently after %d events: %w", len(events), err)
		case e.Error != nil:
			return events, result{}, &failure{e.Error.Code, e.Error.Message}
		case e.Result != nil:
			return events, *e.Result, nil
		}
		events = append(events, e)
	}
}

// write sends a text in pieces, after the opening and before the end.
func write(c session, id string, pieces []string) error {
	if err := c.send(fmt.Sprintf(`{"open":{"id":%q}}`, id)); err != nil {
		return err
	}
	for _, piece := range pieces {
		if err := c.send(textMessage(piece)); err != nil {
			return err
		}
	}
	return c.end()
}

// cuts divides a text at random, between two characters.
func cuts(random *rand.Rand, text string) (pieces []string) {
	runes := []rune(text)
	for len(runes) > 0 {
		n := 1 + random.IntN(min(len(runes), 12))
		pieces, runes = append(pieces, string(runes[:n])), runes[n:]
	}
	return pieces
}

// check compares the events of a session with the result for the whole text.
func check(events []event, got, want result) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("the result of the session is %+v, that of /v1/score %+v", got, want)
	}
	if len(events) != len(want.Instances) {
		return fmt.Errorf("%d utterances had an event, not %d", len(events), len(want.Instances))
	}
	for i, e := range events {
		u, instance := e.Utterance, want.Instances[i]
		if u == nil || u.Index != i || u.Start != instance.Start || u.End != instance.End || u.Violation != instance.Violation {
			return fmt.Errorf("event %d is %+v, not of %+v", i, u, instance)
		}
	}
	return nil
}

// honest writes texts, one after the other, and compares what it gets. A session that is
// refused because there are too many is opened again.
func honest(t *testing.T, over transport, s *service, name string, stop <-chan struct{}) {
	random := rand.New(rand.NewPCG(1, uint64(len(name))))
	for round := 0; ; round++ {
		id := fmt.Sprintf("%s-%d", name, round)
		text := strings.Repeat(prose+". ", 1+round%2)
		c := over.open(t, s)
		sent := write(c, id, cuts(random, text))
		events, got, err := finish(c)
		c.cut()
		var refused *failure
		switch {
		case errors.As(err, &refused) && refused.is(errorcode.Overloaded):
		case err != nil:
			t.Errorf("%s: %v (%v)", id, err, sent)
			return
		default:
			if err := check(events, got, s.score(t, id, text)); err != nil {
				t.Errorf("%s: %v", id, err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}
}

// alongside runs a test while honest clients use the service, which all get the right
// results.
func alongside(t *testing.T, over transport, s *service, test func()) {
	stop := make(chan struct{})
	var clients sync.WaitGroup
	count := 3
	if testing.Short() {
		count = 1
	}
	for i := range count {
		clients.Go(func() { honest(t, over, s, strings.Repeat("honest", i+1), stop) })
	}
	defer clients.Wait()
	defer close(stop)
	test()
}
