package chaos_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/api"
	"assay/queue"
	"assay/queue/labels"
	"assay/queue/registry"
	"assay/rewardmodel"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// checker compares the history with what the service has now, without faults.
type checker struct {
	ctx      context.Context
	t        *testing.T
	sys      system
	models   *models
	history  *history
	of       profile
	noMemory bool // libtorch failed on everything for a while
	rng      *rand.Rand
	http     *http.Client
}

// check waits until the service has completed its work, and reports every broken promise.
func check(ctx context.Context, t *testing.T, sys system, models *models, s schedule, h *history) {
	t.Helper()
	c := &checker{ctx: ctx, t: t, sys: sys, models: models, history: h, of: s.of, rng: rand.New(rand.NewPCG(s.seed, 3)),
		http: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: replyTimeout}}
	c.noMemory = slices.ContainsFunc(s.steps, func(step step) bool { return step.fault == noMemory })
	h.note("the faults have ended")
	nc, js, err := c.connect()
	if err == nil {
		defer nc.Close()
		err = errors.Join(c.rewards(js), c.labels(js), c.registry(), c.training(s.of.training), c.versions())
	}
	if err != nil {
		h.violate("after the faults: %v", err)
	}
	h.note("checked")
	c.excuse()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range h.violations {
		t.Error(v)
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

// excuse reports every loss as a broken promise, unless a stored file of its stream was damaged and the service said so.
func (c *checker) excuse() {
	var reports []string
	if c.of.damage {
		reports = distinct(c.sys.reports())
		c.t.Logf("reported:\n%s", strings.Join(reports, "\n"))
	}
	for _, l := range c.history.losses {
		stream := slices.IndexFunc(l.streams, func(stream string) bool { return reported(reports, stream) })
		if stream < 0 {
			c.history.violate("lost: %s", l.what)
			continue
		}
		c.history.count("lost by damage of "+l.streams[stream]+", which was reported", 1)
	}
}

// reported reports whether a warning or an error names a stream. That the state of a stream is outdated says nothing: it
// is after every kill.
func reported(reports []string, stream string) bool {
	return slices.ContainsFunc(reports, func(line string) bool {
		return strings.Contains(line, stream) && !strings.Contains(line, "Stream state outdated")
	})
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
	published, attempted := c.history.published, c.history.attempted
	c.history.mu.Unlock()
	seen := map[string]int{}
	err = c.read(js, queue.StreamRewards, "", func(msg jetstream.Msg) {
		var result rewardmodel.Result
		if err := json.Unmarshal(msg.Data(), &result); err != nil {
			c.history.violate("a reward that is not JSON: %v", err)
			return
		}
		text, ours := attempted[result.ID]
		if seen[result.ID]++; !ours {
			c.history.violate("a reward for %q, which nobody published", result.ID)
			return
		}
		c.history.scored("stream", msg.Headers().Get(queue.HeaderModelVersion), text, result.Reward)
	})
	dead := map[string]bool{}
	err = errors.Join(err, c.read(js, queue.StreamDead, "", func(msg jetstream.Msg) {
		dead[msg.Headers().Get(queue.HeaderMsgID)] = true
		reason := queue.Reason(strings.TrimPrefix(msg.Subject(), queue.SubjectDead+"."))
		if reason != queue.ReasonCrash && !(reason == queue.ReasonModel && c.noMemory) {
			c.history.violate("dead letter %s: %v", reason, msg.Headers())
		}
		c.history.count("dead letters: "+string(reason), 1)
	}))
	for id := range published {
		if seen[id] == 0 && !dead[id] {
			c.history.lost("reward", []string{queue.StreamRewards, queue.StreamResponses}, "of %s", id)
		}
	}
	for id, n := range seen {
		if n > 1 {
			c.history.violate("%d rewards of %s", n, id)
		}
	}
	return err
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
		switch got, ok := stored[key]; {
		case !ok:
			c.history.lost("label", []string{labels.StreamFeedback}, "%v", key)
		case got != state:
			c.history.lost("label", []string{labels.StreamFeedback}, "%v is %v, must be %v", key, got, state)
		}
	}
	for key, state := range stored {
		if _, ok := want[key]; !ok {
			c.history.lost("withdrawal or erasure", []string{labels.StreamFeedback}, "%v is %v", key, state)
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
func (c *checker) score(version string) (map[string]float64, error) {
	at, ok := c.sys.pick(c.rng)
	if !ok {
		return nil, errDown
	}
	return c.models.score(c.ctx, c.http, at.http, version)
}

// registry checks that promotions, rollbacks and reads have an order that explains their results.
func (c *checker) registry() error {
	switch result := c.history.linearizable(versions[0], 30*time.Second); result {
	case porcupine.Ok:
	case porcupine.Unknown:
		c.history.count("registry histories too long to check", 1)
	default:
		c.history.lost("promotion", []string{registry.StreamState}, "the registry is not linearizable: %s", c.history.operations())
	}
	return nil
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

// versions compares every reward with the one that its version computes without faults.
func (c *checker) versions() error {
	c.history.mu.Lock()
	seen := c.history.rewards
	c.history.mu.Unlock()
	for version, rewards := range seen {
		calm := c.models.rewards[version]
		if calm == nil { // the service has trained it
			err := c.await("version "+version, func() (err error) {
				calm, err = c.score(version)
				return err
			})
			if err != nil {
				return err
			}
		}
		for text, reward := range rewards {
			if !near(reward, calm[text]) {
				c.history.violate("version %s computed %v for %q, without faults %v", version, reward, text, calm[text])
			}
			c.history.count("texts compared with a calm run", 1)
		}
	}
	return nil
}
