package proxy

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rs/zerolog"
)

var (
	errGuard     = errors.New("the guard failed")
	errMalformed = errors.New("the upstream sent a message that the proxy cannot read")
	errStopped   = errors.New("every choice has ended")
)

// answer is a response under guard: its texts, and what ends it early.
type answer struct {
	config  *Config
	guard   Guard
	metrics *metrics
	log     zerolog.Logger
	request requestInfo
	// sessions is the maximum number of texts that are scored at the same time.
	sessions int

	ctx    context.Context // ends the texts and the upstream
	cancel context.CancelCauseFunc
	// onStop is called when mode stop ends a text, on the goroutine of the text.
	onStop func(*text)

	group sync.WaitGroup
	mu    sync.Mutex
	texts []*text
	open  int   // texts that are being scored
	kept  int64 // bytes of the response
	fails bool  // a failure was counted
}

// maxTexts bounds the texts of a response.
const maxTexts = 4096

var errTexts = fmt.Errorf("%w: the response has more than %d texts", errMalformed, maxTexts)

// keep counts bytes of the response that are kept until its end. Beyond Config.MaxBody it
// ends the answer: the upstream could not repeat them in an event.
func (a *answer) keep(bytes int) bool {
	a.mu.Lock()
	a.kept += int64(bytes)
	fits := a.kept <= a.config.MaxBody
	a.mu.Unlock()
	if !fits {
		a.abort(fmt.Errorf("%w: the texts and tool calls of the response are larger than --max-body, %d", errMalformed, a.config.MaxBody))
	}
	return fits
}

func (p *Proxy) newAnswer(ctx context.Context, e *exchange) *answer {
	a := &answer{config: &p.config, guard: p.guard, metrics: p.metrics, log: p.log, request: e.info, onStop: func(*text) {}}
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	return a
}

// enter counts a text that is about to be scored; leave ends that.
func (a *answer) enter() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open >= a.sessions {
		return fmt.Errorf("the response has more than %d texts at the same time; ask for fewer choices (n)", a.sessions)
	}
	a.open++
	return nil
}

func (a *answer) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
}

// register starts a text.
func (a *answer) register(t *text) {
	a.mu.Lock()
	a.texts = append(a.texts, t)
	many := len(a.texts) > maxTexts
	a.mu.Unlock()
	if many && a.config.Mode.Enforces() {
		a.abort(errTexts)
	}
	a.group.Go(func() { t.run(a.ctx) })
}

func (a *answer) prompt(choice int) string { return a.request.prompt(choice) }

// guarded reports whether a field of a message is scored.
func (a *answer) guarded(reasoning bool) bool { return !reasoning || a.config.ScoreReasoning }

// abort ends the answer with an error.
func (a *answer) abort(err error) { a.cancel(err) }

// aborted returns the error of abort: nil while the answer continues, and after stop.
func (a *answer) aborted() error {
	err := context.Cause(a.ctx)
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// allStopped reports that mode stop has ended every choice.
func (a *answer) allStopped() bool { return errors.Is(context.Cause(a.ctx), errStopped) }

func (a *answer) stopped(t *text) { a.onStop(t) }

// failed counts and logs that scoring failed, once per answer.
func (a *answer) failed(err error) {
	a.mu.Lock()
	first := !a.fails
	a.fails = true
	a.mu.Unlock()
	if first {
		a.metrics.failures.WithLabelValues(a.config.failurePolicy()).Inc()
		a.log.Warn().Err(err).Str("mode", string(a.config.Mode)).Str("policy", a.config.failurePolicy()).Msg("scoring a response failed")
	}
}

// failurePolicy is what follows a failure.
func (c *Config) failurePolicy() string {
	switch {
	case !c.Mode.Enforces():
		return "observe"
	case c.FailOpen:
		return "open"
	}
	return "closed"
}

// end ends all texts and waits for them.
func (a *answer) end() {
	a.cancel(errStopped)
	a.group.Wait()
}

// await ends the texts and waits for their verdicts, until ctx ends.
func (a *answer) await(ctx context.Context) {
	a.mu.Lock()
	texts := a.texts
	a.mu.Unlock()
	for _, t := range texts {
		t.finish()
	}
	for _, t := range texts {
		select {
		case <-t.ended:
		case <-ctx.Done():
			return
		}
	}
}
