package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"assay/lab/bench"
	"assay/lab/load"
	"assay/lab/stats"
	"assay/rewardmodel"
	"assay/segmenter"
	"assay/sidecar/cli"
)

// liveLatencyCmd scores streams in this process.
type liveLatencyCmd struct {
	Streams []int         `default:"64,128,256,512" help:"Responses that are written at the same time (${default})."`
	Rate    float64       `default:"30" help:"Words per second of each stream (${default})."`
	Length  time.Duration `name:"seconds" default:"30s" help:"Length of each measurement (${default})."`
	Warm    time.Duration `default:"5s" help:"Time before each measurement in which the streams run (${default})."`
	Batch   int           `default:"16" help:"Responses per request of batch scoring (${default}); 0: no batch scoring alongside."`
	Texts   int           `default:"2000" help:"Responses that the streams and batch scoring take in turns (${default})."`
	Seed    uint64        `default:"1" help:"Seed of the start times of the streams (${default})."`
	workFlag
	scorerFlags
}

// Help is shown by --help.
func (*liveLatencyCmd) Help() string {
	return `Example:

    assay-lab bench live latency
    assay-lab bench live latency --streams 8 --seconds 5s --warm 1s

Loads the model into this process without a cache. Each stream opens a live session, feeds it a word at a time at --rate
words per second, closes it, and continues with the next response; words that arrive while a sentence is scored are fed
together. Transports are not included. Each row is a measurement, without and with batch scoring, which keeps two requests
of --batch responses in flight:

  sentences/s  verdicts
  p50 ... max  delay of the verdict on a sentence from when the word that completes it is due, in ms
  late         99th percentile of how much later than due a word was read by a stream that was not waiting for a verdict
  cpu %        CPU time of the whole process per stream, in percent of one CPU; meaningful without batch scoring
  batch/s      responses per second of batch scoring
  share %      of its throughput without streams, which is the first row`
}

func (c *liveLatencyCmd) validate() error {
	if len(c.Streams) == 0 || slices.Min(c.Streams) < 1 || c.Texts < 1 || c.Batch < 0 || c.Rate <= 0 || c.Length <= 0 || c.Warm < 0 || c.MaxInstances < 1 {
		return cli.Usage(errors.New("--streams, --rate, --seconds, --texts and --max-instances take positive numbers, --batch and --warm 0 or more"))
	}
	return nil
}

// Run is called by kong.
func (c *liveLatencyCmd) Run(a *cli.App) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	texts, err := c.sample(ctx, c.Texts)
	if err != nil {
		return err
	}
	work := make([]liveText, len(texts))
	for i, text := range texts {
		if work[i], err = newLiveText(ctx, text); err != nil {
			return err
		}
	}
	model, closeAll, err := c.open(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "streams\tbatch\tsentences/s\tp50 ms\tp90 ms\tp99 ms\tmax ms\tlate ms\tcpu %\tbatch/s\tshare %\t")
	var alone float64
	for _, run := range c.runs() {
		m := liveMeasurement{c: c, scorer: model.Scorer, work: work, streams: run.streams, batch: run.batch}
		if err := m.run(ctx); err != nil {
			return err
		}
		if run.streams == 0 {
			alone = m.batchRate()
		}
		fmt.Fprint(table, m.row(alone))
		a.Log.Info().Int("streams", run.streams).Bool("batch", run.batch).Msg("measured")
	}
	return table.Flush()
}

type liveRun struct {
	streams int
	batch   bool
}

// runs are the measurements, in the order of the rows.
func (c *liveLatencyCmd) runs() (runs []liveRun) {
	if c.Batch > 0 {
		runs = append(runs, liveRun{batch: true})
	}
	for _, streams := range c.Streams {
		runs = append(runs, liveRun{streams: streams})
		if c.Batch > 0 {
			runs = append(runs, liveRun{streams, true})
		}
	}
	return runs
}

// liveText is a response as it is written.
type liveText struct {
	text      string
	words     []string
	sentences []writtenSentence // without those that the end of the text completes
}

// writtenSentence is a sentence that ends before a byte offset, and the index of the word that completes it.
type writtenSentence struct{ end, word int }

func newLiveText(ctx context.Context, text string) (liveText, error) {
	t := liveText{text: text, words: tokensOf(text)}
	var stream segmenter.Stream
	for i, word := range t.words {
		sentences, err := stream.Feed(ctx, word)
		if err != nil {
			return liveText{}, err
		}
		for _, sentence := range sentences {
			t.sentences = append(t.sentences, writtenSentence{sentence.End, i})
		}
	}
	return t, nil
}

// completes is the index of the word that completes the sentence with the end as a byte offset; len(words) if that is
// the end of the text.
func (t liveText) completes(end int) int {
	for _, sentence := range t.sentences {
		if end <= sentence.end {
			return sentence.word
		}
	}
	return len(t.words)
}

// liveMeasurement is a row of the table.
type liveMeasurement struct {
	c       *liveLatencyCmd
	scorer  *rewardmodel.Scorer
	work    []liveText
	streams int
	batch   bool

	next    atomic.Int64 // text
	measure atomic.Bool  // whether what happens counts

	mu     sync.Mutex
	delays []time.Duration // of verdicts
	late   []time.Duration // of words
	scored int             // responses of batch scoring
	took   time.Duration   // of the measurement
	cpu    time.Duration
}

// batchesInFlight is how many requests of batch scoring there are at the same time: while one is segmented and tokenized,
// the model computes another.
const batchesInFlight = 2

// run measures for c.Length after c.Warm.
func (m *liveMeasurement) run(ctx context.Context) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	group, running := errgroup.WithContext(running)
	random := rand.New(rand.NewPCG(m.c.Seed, uint64(m.streams)))
	for range m.streams {
		begin := time.Now().Add(time.Duration(random.Float64() * float64(min(m.c.Warm, time.Second))))
		m.next.Add(int64(random.IntN(len(m.work))))
		group.Go(func() error { return m.stream(running, begin) })
	}
	for range batchesInFlight {
		if m.batch {
			group.Go(func() error { return m.scoreBatches(running) })
		}
	}
	group.Go(func() error {
		defer stop()
		return m.measured(running)
	})
	err := group.Wait()
	if m.took > 0 && errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = nil // the end of the measurement
	}
	slices.Sort(m.delays)
	slices.Sort(m.late)
	return err
}

// measured counts what happens in c.Length.
func (m *liveMeasurement) measured(ctx context.Context) error {
	if err := load.WaitUntil(ctx, time.Now().Add(m.c.Warm)); err != nil {
		return err
	}
	before, err := bench.OwnCPU()
	if err != nil {
		return err
	}
	start := time.Now()
	m.measure.Store(true)
	if err := load.WaitUntil(ctx, start.Add(m.c.Length)); err != nil {
		return err
	}
	m.measure.Store(false)
	after, err := bench.OwnCPU()
	m.took, m.cpu = time.Since(start), after-before
	return err
}

func (m *liveMeasurement) text() liveText {
	return m.work[int(m.next.Add(1))%len(m.work)]
}

// stream writes one response after another, starting at begin.
func (m *liveMeasurement) stream(ctx context.Context, begin time.Time) error {
	for {
		text := m.text()
		if err := m.write(ctx, text, begin); err != nil {
			return err
		}
		begin = begin.Add(m.interval(len(text.words) + 1))
	}
}

func (m *liveMeasurement) interval(words int) time.Duration {
	return time.Duration(float64(words) / m.c.Rate * float64(time.Second))
}

// write writes a response. Word i is due i intervals after begin, and the end after the last one.
func (m *liveMeasurement) write(ctx context.Context, text liveText, begin time.Time) error {
	session, err := m.scorer.Live(ctx, rewardmodel.LiveRequest{})
	if err != nil {
		return err
	}
	due := func(word int) time.Time { return begin.Add(m.interval(word)) }
	note := func(events []rewardmodel.LiveEvent) {
		now := time.Now()
		for _, e := range events {
			if !e.Reset {
				m.note(&m.delays, now.Sub(due(text.completes(e.Utterance.Bytes))))
			}
		}
	}
	for at := 0; at < len(text.words); {
		waited, err := waitUntil(ctx, due(at))
		if err != nil {
			return err
		}
		if waited {
			m.note(&m.late, time.Since(due(at)))
		}
		end := at + 1
		for end < len(text.words) && !time.Now().Before(due(end)) { // arrived while the last sentence was scored
			end++
		}
		events, err := session.Feed(ctx, strings.Join(text.words[at:end], ""))
		if err != nil {
			return err
		}
		note(events)
		at = end
	}
	if _, err := waitUntil(ctx, due(len(text.words))); err != nil {
		return err
	}
	events, _, err := session.Close(ctx)
	note(events)
	return err
}

// waitUntil reports whether t was in the future.
func waitUntil(ctx context.Context, t time.Time) (bool, error) {
	if !time.Now().Before(t) {
		return false, ctx.Err()
	}
	return true, load.WaitUntil(ctx, t)
}

func (m *liveMeasurement) note(to *[]time.Duration, d time.Duration) {
	if !m.measure.Load() {
		return
	}
	m.mu.Lock()
	*to = append(*to, d)
	m.mu.Unlock()
}

// scoreBatches scores one request after another.
func (m *liveMeasurement) scoreBatches(ctx context.Context) error {
	for {
		request := rewardmodel.Request{Priority: rewardmodel.PriorityBulk}
		for range m.c.Batch {
			text := m.text().text
			request.Responses = append(request.Responses, rewardmodel.Item{Response: &text})
		}
		if _, err := m.scorer.Score(ctx, request); err != nil {
			return err
		}
		if m.measure.Load() {
			m.mu.Lock()
			m.scored += m.c.Batch
			m.mu.Unlock()
		}
	}
}

// batchRate is the throughput of batch scoring, in responses per second.
func (m *liveMeasurement) batchRate() float64 { return float64(m.scored) / m.took.Seconds() }

func (m *liveMeasurement) row(alone float64) string {
	cells := []any{m.streams, map[bool]string{false: "no", true: "yes"}[m.batch], "-", "-", "-", "-", "-", "-", "-", "-", "-"}
	format := func(v float64) string { return fmt.Sprintf("%.1f", v) }
	if len(m.delays) > 0 {
		cells[2] = format(float64(len(m.delays)) / m.took.Seconds())
		for i, p := range []int{50, 90, 99, 100} {
			cells[3+i] = format(stats.Milliseconds(stats.Percentile(m.delays, p)))
		}
	}
	if len(m.late) > 0 {
		cells[7] = format(stats.Milliseconds(stats.Percentile(m.late, 99)))
	}
	if m.streams > 0 {
		cells[8] = fmt.Sprintf("%.2f", 100*m.cpu.Seconds()/m.took.Seconds()/float64(m.streams))
	}
	if m.batch {
		cells[9] = format(m.batchRate())
		cells[10] = percent(m.batchRate(), alone)
	}
	return fmt.Sprintf(strings.Repeat("%v\t", len(cells))+"\n", cells...)
}
