package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/api"
	"assay/queue"
	"assay/queue/labels"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// checker compares the history with what the service has now, without faults.
type checker struct {
	ctx         context.Context
	t           *testing.T
	sys         system
	models      *models
	history     *history
	of          profile
	modelFailed bool           // the model failed on everything for a while
	found       []damageReport // by a reader that verifies checksums
	rng         *rand.Rand
	http        *http.Client
}

func newChecker(ctx context.Context, t *testing.T, sys system, models *models, s schedule, h *history) *checker {
	c := &checker{ctx: ctx, t: t, sys: sys, models: models, history: h, of: s.of, rng: rand.New(rand.NewPCG(s.seed, 3)),
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: replyTimeout}}
	c.modelFailed = slices.ContainsFunc(s.steps, func(step step) bool { return slices.Contains([]fault{noMemory, nan, exception}, step.fault) })
	return c
}

// check waits until the service has completed its work, and reports every broken promise.
func (c *checker) check() {
	c.t.Helper()
	h := c.history
	h.note("the faults have ended")
	nc, js, err := c.connect()
	if err == nil {
		defer nc.Close()
		err = errors.Join(c.rewards(js), c.labels(js))
		h.agrees(versions[0], registryTimeouts...)
		err = errors.Join(err, c.training(c.of.training), c.versions(true))
	}
	if err != nil {
		h.violate("after the faults: %v", err)
	}
	h.note("checked")
	c.conclude()
}

// registryTimeouts are how long the order of promotions, rollbacks and reads may be searched for.
var registryTimeouts = []time.Duration{30 * time.Second, 2 * time.Minute}

// refused checks what can be without the service, which did not start again on damaged data and logged lines, and reports
// every broken promise.
func (c *checker) refused(lines []string) {
	c.t.Helper()
	c.afterRefusal(lines)
	c.conclude()
}

func (c *checker) afterRefusal(lines []string) {
	h := c.history
	h.note("it refused to start")
	if files := c.sys.damaged(); !namesDamage(lines, files) {
		h.violate("it refused to start and names none of the damaged files %v:\n%s", files, strings.Join(lines, "\n"))
	}
	h.agrees(versions[0], registryTimeouts...)
	if err := c.versions(false); err != nil {
		h.violate("after the faults: %v", err)
	}
}

// conclude reports every broken promise.
func (c *checker) conclude() {
	c.t.Helper()
	c.excuse()
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	for _, v := range c.history.violations {
		c.t.Error(v)
	}
}

func (c *checker) connect() (*nats.Conn, jetstream.JetStream, error) {
	at, ok := c.sys.pick(c.rng)
	if !ok {
		return nil, nil, errDown
	}
	nc, err := nats.Connect(at.nats, nats.MaxReconnects(-1))
	if err != nil {
		return nil, nil, err
	}
	js, err := jetstream.New(nc)
	return nc, js, err
}

// await repeats a condition until it is nil or the schedule has taken too long.
func (c *checker) await(what string, condition func() error) error {
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-c.ctx.Done():
			return fmt.Errorf("%s: %w", what, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// excuse reports every loss as a broken promise, unless a stored file of its stream was damaged and the service said so. If
// no file was damaged, the service must not say so either.
func (c *checker) excuse() {
	var reports []damageReport
	lines := distinct(c.sys.reports())
	if !c.of.damage {
		for _, line := range lines {
			// Without a subject and a sequence, nats-server could not name what it cut off: a write that a fault interrupted.
			if report, ok := reportOfAssay(line); ok && (report.Subject != "" || report.Sequence != 0) {
				c.history.violate("no file was damaged, and it reports damage: %s", line)
			}
		}
	} else {
		c.t.Logf("reported:\n%s", strings.Join(lines, "\n"))
		reports = append(c.found, damageReports(lines, c.sys.damaged())...)
	}
	for _, l := range excuse(c.history.losses, reports, func(stream string) {
		c.history.count("lost by damage of "+stream+", which was reported", 1)
	}) {
		c.history.violate("lost: %s: %s", l.what, l.details)
	}
}

// distinct removes lines that differ only in their time.
func distinct(lines []string) (out []string) {
	timestamp := regexp.MustCompile(`"time":"[^"]*",`)
	seen := map[string]bool{}
	for _, line := range lines {
		if line = timestamp.ReplaceAllString(line, ""); !seen[line] {
			seen[line] = true
			out = append(out, line)
		}
	}
	return out
}

// rewards checks that each response has exactly one reward, and each the right one.
func (c *checker) rewards(js jetstream.JetStream) error {
	err := c.await("responses wait", func() error {
		s, err := js.Stream(c.ctx, queue.StreamResponses)
		if err == nil && s.CachedInfo().State.Msgs > 0 {
			err = fmt.Errorf("%d messages in %s", s.CachedInfo().State.Msgs, queue.StreamResponses)
		}
		return err
	})
	if err != nil {
		return err
	}
	c.history.mu.Lock()
	attempted := c.history.attempted
	c.history.mu.Unlock()
	seen := answers{rewards: map[string][]uint64{}, dead: map[string][]queue.Reason{}, forgetful: c.of.clock}
	err = c.read(js, queue.StreamRewards, "", func(msg jetstream.Msg) {
		if !c.intact(queue.StreamRewards, msg) {
			return
		}
		var result rewardmodel.Result
		if err := json.Unmarshal(msg.Data(), &result); err != nil {
			c.history.violate("a reward that is not JSON: %v", err)
			return
		}
		text, ours := attempted[result.ID]
		if !ours {
			c.history.violate("a reward for %q, which nobody published", result.ID)
			return
		}
		sequence, err := strconv.ParseUint(msg.Headers().Get(queue.HeaderSequence), 10, 64)
		if err != nil {
			c.history.violate("a reward without the sequence of its response: %v", err)
		}
		seen.rewards[result.ID] = append(seen.rewards[result.ID], sequence)
		by := rewardmodel.ModelInfo{Version: msg.Headers().Get(queue.HeaderModelVersion), Numerics: msg.Headers().Get(queue.HeaderNumerics)}
		c.history.scored("stream", by, text, result.Reward)
	})
	err = errors.Join(err, c.read(js, queue.StreamDead, "", func(msg jetstream.Msg) {
		if !c.intact(queue.StreamDead, msg) {
			return
		}
		id := msg.Headers().Get(queue.HeaderMsgID)
		seen.dead[id] = append(seen.dead[id], queue.Reason(strings.TrimPrefix(msg.Subject(), queue.SubjectDead+".")))
		c.history.note("dead letter: %v", msg.Headers())
	}))
	if err == nil {
		c.history.answered(seen, c.sys.deaths(), c.modelFailed)
	}
	return err
}

// intact verifies the checksum of a reward or a dead letter. A damaged one is a report of its loss.
func (c *checker) intact(stream string, msg jetstream.Msg) bool {
	err := queue.VerifyChecksum(msg.Subject(), msg.Headers(), msg.Data())
	if err == nil && msg.Headers().Get("Assay-Checksum") != "" {
		return true
	}
	meta, _ := msg.Metadata() // read has checked it
	if !c.of.damage {
		c.history.violate("%d of %s has a wrong checksum, or none: %v", meta.Sequence.Stream, stream, msg.Headers())
	}
	c.history.count("with a wrong checksum: "+stream, 1)
	c.found = append(c.found, damageReport{stream: stream, sequence: meta.Sequence.Stream})
	return false
}

// read reads a stream, or some of its subjects, to the end.
func (c *checker) read(js jetstream.JetStream, stream, subject string, each func(jetstream.Msg)) error {
	s, err := js.Stream(c.ctx, stream)
	if err != nil {
		return fmt.Errorf("%s: %w", stream, err)
	}
	stored, err := s.Info(c.ctx, jetstream.WithDeletedDetails(true))
	if err != nil {
		return fmt.Errorf("%s: %w", stream, err)
	}
	state := stored.State
	slices.Sort(state.Deleted)
	if state.Msgs == 0 {
		return nil
	}
	cfg := jetstream.OrderedConsumerConfig{}
	if subject != "" {
		cfg.FilterSubjects = []string{subject}
	}
	consumer, err := js.OrderedConsumer(c.ctx, stream, cfg)
	if err != nil {
		return fmt.Errorf("%s: %w", stream, err)
	}
	defer func() { // or a condition that is awaited for minutes reaches the limit of consumers
		if info := consumer.CachedInfo(); info != nil {
			_ = js.DeleteConsumer(context.WithoutCancel(c.ctx), stream, info.Name) // it ends without it, later
		}
	}()
	info, err := consumer.Info(c.ctx)
	if err != nil || info.NumPending == 0 {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	next := uint64(1)
	ended := func() (bool, error) {
		_, err := s.GetMsg(c.ctx, next, jetstream.WithGetMsgSubject(cmp.Or(subject, ">")))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return true, nil
		}
		return false, err
	}
	for {
		msg, err := messages.Next(jetstream.NextMaxWait(replyTimeout))
		if errors.Is(err, nats.ErrTimeout) { // a message that is damaged or was deleted counts as pending, and is never delivered
			if end, failed := ended(); end {
				return nil
			} else if failed != nil {
				err = failed
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", stream, err)
		}
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		// The server of the consumer may still have a message that the leader has not.
		if _, deleted := slices.BinarySearch(state.Deleted, meta.Sequence.Stream); !deleted && meta.Sequence.Stream >= state.FirstSeq {
			each(msg)
		}
		next = meta.Sequence.Stream + 1
		if meta.NumPending == 0 { // which is too few if messages are removed meanwhile
			if end, err := ended(); end || err != nil {
				return err
			}
		}
	}
}

// labels compares the labels in force with those that were acknowledged, in the stream and as the service counts them.
func (c *checker) labels(js jetstream.JetStream) error {
	want := c.history.inForce()
	var stored map[labelKey]labelState
	// An erasure that a fault has delayed may be executed meanwhile.
	err := c.await("the service counts other labels", func() (err error) {
		if stored, err = c.storedLabels(js); err != nil {
			stored = nil
			return err
		}
		var stats feedback.Stats
		if err := c.get("/v1/feedback", &stats); err != nil {
			return err
		}
		if stats.Records != len(stored) {
			return fmt.Errorf("it counts %d, stored are %d", stats.Records, len(stored))
		}
		return nil
	})
	if stored == nil {
		return err
	}
	for key, state := range want {
		_, since := c.history.label(key)
		switch got, ok := stored[key]; {
		case !ok:
			c.history.lost(lostLabel(key), "it is missing, acknowledged at %v", since)
		case got != state:
			c.history.lost(lostLabel(key), "it is %v, must be %v, acknowledged at %v", got, state, since)
		}
	}
	for key, state := range stored {
		if _, ok := want[key]; !ok {
			_, since := c.history.label(key)
			c.history.lost(lostLabel(key), "it was withdrawn or erased, acknowledged at %v, and is %v", since, state)
		}
	}
	return err
}

// storedLabels reads the labels in force from their stream.
func (c *checker) storedLabels(js jetstream.JetStream) (map[labelKey]labelState, error) {
	stored := map[labelKey]labelState{}
	keys := map[string]labelKey{} // by subject
	err := c.read(js, labels.StreamFeedback, labels.SubjectFeedback+".item.>", func(msg jetstream.Msg) {
		delete(stored, keys[msg.Subject()]) // replaced
		if len(msg.Data()) == 0 {
			return // withdrawn or erased
		}
		record, err := feedback.ParseRecord(msg.Data())
		if err != nil || record.Bag.Response == "" {
			c.history.violate("a record of a label that cannot be read: %v: %.300s", err, msg.Data())
			return
		}
		key := labelKey{record.Bag.ID, record.Bag.Rater}
		if _, twice := stored[key]; twice {
			c.history.violate("two records of %v", key)
		}
		keys[msg.Subject()] = key
		stored[key] = labelState{record.Bag.Label, record.Bag.Response}
	})
	return stored, err
}

// get decodes a reply of the service.
func (c *checker) get(path string, into any) error {
	at, ok := c.sys.pick(c.rng)
	if !ok {
		return errDown
	}
	request, err := http.NewRequestWithContext(c.ctx, http.MethodGet, at.http+path, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return json.UnmarshalRead(response.Body, into)
}

// score returns the reward of each text by a version, which the service may have to load.
func (c *checker) score(version string) (scores, error) {
	at, ok := c.sys.pick(c.rng)
	if !ok {
		return scores{}, errDown
	}
	return c.models.score(c.ctx, c.http, at.http, version)
}

// training checks that every run started once and ended at most once, after the last one has ended.
func (c *checker) training(trains bool) error {
	if !trains {
		return nil
	}
	err := c.await("training does not end", func() error {
		var status api.Training
		if err := c.get("/v1/training", &status); err != nil {
			return err
		}
		if status.Phase != retrain.PhaseIdle {
			return fmt.Errorf("phase %s", status.Phase)
		}
		return nil
	})
	var events []retrain.Event
	if err = errors.Join(err, c.get("/v1/events?n=1000", &events)); err != nil {
		return err
	}
	began, ended := map[string]int{}, map[string]int{}
	for _, e := range events {
		switch e.Kind {
		case retrain.EventTrainingStarted:
			if began[e.Training]++; len(began)-len(ended) > 1 {
				c.history.violate("training run %s started while another one ran", e.Training)
			}
		case retrain.EventPromoted, retrain.EventRejected, retrain.EventTrainingFailed, retrain.EventTrainingCanceled:
			if e.Training == "" {
				continue
			}
			ended[e.Training]++
			c.history.count("training: "+string(e.Kind), 1)
			if e.Kind == retrain.EventTrainingFailed {
				c.history.note("training failed: %s", e.Reason)
			}
		case retrain.EventLoadFailed:
			c.history.count("training: "+string(e.Kind), 1)
		}
	}
	for id, n := range began {
		if n != 1 || ended[id] > 1 {
			c.history.violate("training run %s started %d times and ended %d times", id, n, ended[id])
		}
	}
	return nil
}

// versions compares every reward with the one that its version computes without faults: for one that the service has
// trained, the service must run.
func (c *checker) versions(runs bool) error {
	c.history.mu.Lock()
	seen := slices.Collect(maps.Keys(c.history.rewards))
	c.history.mu.Unlock()
	for _, version := range seen {
		calm, known := c.models.calm[version]
		if !known && !runs {
			continue
		}
		if !known {
			err := c.await("version "+version, func() (err error) {
				calm, err = c.score(version)
				return err
			})
			if err != nil {
				return err
			}
		}
		c.history.computed(version, calm)
	}
	return nil
}
