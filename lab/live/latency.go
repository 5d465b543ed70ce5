package live

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

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"assay/lab/bench"
	"assay/lab/flags"
	"assay/lab/load"
	"assay/lab/stats"
	"assay/rewardmodel"
	"assay/segmenter"
	"assay/sidecar/cli"
)

// latencyCmd scores streams in this process.
type latencyCmd struct {
	Streams []int         `default:"64,128,256,512" help:"Responses that are written at the same time (${default})."`
	Rate    float64       `default:"30" help:"Words per second of each stream (${default})."`
	Length  time.Duration `name:"seconds" default:"30s" help:"Length of each measurement (${default})."`
	Warm    time.Duration `default:"5s" help:"Time before each measurement in which the streams run (${default})."`
	Batch   int           `default:"16" help:"Responses per request of batch scoring (${default}); 0: no batch scoring alongside."`
	Texts   int           `default:"2000" help:"Responses that the streams and batch scoring take in turns (${default})."`
	Seed    uint64        `default:"1" help:"Seed of the start times of the streams (${default})."`
	flags.Work
	scorerFlags
}

// Help is shown by --help.
func (*latencyCmd) Help() string {
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
  tokens/s     that the model computes, of streams and batch scoring together
  per call     tokens of a call of the model
  batch/s      responses per second of batch scoring
  share %      of its throughput without streams, which is the first row
  ceiling %    what the tokens of the streams leave of that, if a token costs the same in every batch
  total %      tokens/s compared with batch scoring alone`
}

func (c *latencyCmd) validate() error {
	if len(c.Streams) == 0 || slices.Min(c.Streams) < 1 || c.Texts < 1 || c.Batch < 0 || c.Rate <= 0 || c.Length <= 0 || c.Warm < 0 || c.MaxInstances < 1 {
		return cli.Usage(errors.New("--streams, --rate, --seconds, --texts and --max-instances take positive numbers, --batch and --warm 0 or more"))
	}
	return nil
}

// Run is called by kong.
func (c *latencyCmd) Run(a *cli.App) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	texts, err := c.Sample(ctx, c.Texts)
	if err != nil {
		return err
	}
	work := make([]writtenText, len(texts))
	for i, text := range texts {
		if work[i], err = newWrittenText(ctx, text); err != nil {
			return err
		}
	}
	metrics := prometheus.NewRegistry()
	model, closeAll, err := c.open(ctx, 0, metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "streams\tbatch\tsentences/s\tp50 ms\tp90 ms\tp99 ms\tmax ms\tlate ms\tcpu %\ttokens/s\tper call\tbatch/s\tshare %\tceiling %\ttotal %\t")
	var against baseline
	for _, run := range c.runs() {
		m := measurement{c: c, scorer: model.Scorer, metrics: metrics, work: work, streams: run.streams, batch: run.batch}
		if err := m.run(ctx); err != nil {
			return err
		}
		switch {
		case run.streams == 0:
			against.batch, against.batchTokens = m.batchRate(), m.tokenRate()
		case !run.batch:
			against.streamTokens = m.tokenRate()
		}
		fmt.Fprint(table, m.row(against))
		a.Log.Info().Int("streams", run.streams).Bool("batch", run.batch).Msg("measured")
	}
	return table.Flush()
}

type streamRun struct {
	streams int
	batch   bool
}

// runs are the measurements, in the order of the rows.
func (c *latencyCmd) runs() (runs []streamRun) {
	if c.Batch > 0 {
		runs = append(runs, streamRun{batch: true})
	}
	for _, streams := range c.Streams {
		runs = append(runs, streamRun{streams: streams})
		if c.Batch > 0 {
			runs = append(runs, streamRun{streams, true})
		}
	}
	return runs
}

// writtenText is a response as it is written.
type writtenText struct {
	text      string
	words     []string
	sentences []writtenSentence // without those that the end of the text completes
}

// writtenSentence is a sentence that ends before a byte offset, and the index of the word that completes it.
type writtenSentence struct{ end, word int }

func newWrittenText(ctx context.Context, text string) (writtenText, error) {
	t := writtenText{text: text, words: tokensOf(text)}
	var stream segmenter.Stream
	for i, word := range t.words {
		sentences, err := stream.Feed(ctx, word)
		if err != nil {
			return writtenText{}, err
		}
		for _, sentence := range sentences {
			t.sentences = append(t.sentences, writtenSentence{sentence.End, i})
		}
	}
	return t, nil
}

// completes is the index of the word that completes the sentence with the end as a byte offset; len(words) if that is
// the end of the text.
func (t writtenText) completes(end int) int {
	for _, sentence := range t.sentences {
		if end <= sentence.end {
			return sentence.word
		}
	}
	return len(t.words)
}

// measurement is a row of the table.
type measurement struct {
	c       *latencyCmd
	scorer  *rewardmodel.Scorer
	metrics *prometheus.Registry // of the scorer
	work    []writtenText
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
	calls  float64 // of the model
	tokens float64 // of these
}

// baseline is what later rows are compared with.
type baseline struct {
	batch, batchTokens float64 // responses/s and tokens/s of batch scoring alone
	streamTokens       float64 // tokens/s of the streams alone
}

// batchesInFlight is how many requests of batch scoring there are at the same time: while one is segmented and tokenized,
// the model computes another.
const batchesInFlight = 2

// run measures for c.Length after c.Warm.
func (m *measurement) run(ctx context.Context) error {
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
func (m *measurement) measured(ctx context.Context) error {
	if err := load.WaitUntil(ctx, time.Now().Add(m.c.Warm)); err != nil {
		return err
	}
	before, err := bench.OwnCPU()
	if err != nil {
		return err
	}
	calls, tokens, err := m.modelWork()
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
	if err != nil {
		return err
	}
	m.took, m.cpu = time.Since(start), after-before
	m.calls, m.tokens, err = m.modelWork()
	m.calls, m.tokens = m.calls-calls, m.tokens-tokens
	return err
}

// modelWork is the number of calls of the model since its start, and of their tokens.
func (m *measurement) modelWork() (calls, tokens float64, err error) {
	families, err := m.metrics.Gather()
	if err != nil {
		return 0, 0, err
	}
	for _, f := range families {
		if f.GetName() == metricBatchTokens {
			for _, metric := range f.GetMetric() {
				calls += float64(metric.GetHistogram().GetSampleCount())
				tokens += metric.GetHistogram().GetSampleSum()
			}
		}
	}
	return calls, tokens, nil
}

// metricBatchTokens is the histogram of the tokens of a call.
const metricBatchTokens = "assay_batch_tokens"

func (m *measurement) text() writtenText {
	return m.work[int(m.next.Add(1))%len(m.work)]
}

// stream writes one response after another, starting at begin.
func (m *measurement) stream(ctx context.Context, begin time.Time) error {
	for {
		text := m.text()
		if err := m.write(ctx, text, begin); err != nil {
			return err
		}
		begin = begin.Add(m.interval(len(text.words) + 1))
	}
}

func (m *measurement) interval(words int) time.Duration {
	return time.Duration(float64(words) / m.c.Rate * float64(time.Second))
}

// write writes a response. Word i is due i intervals after begin, and the end after the last one.
func (m *measurement) write(ctx context.Context, text writtenText, begin time.Time) error {
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

func (m *measurement) note(to *[]time.Duration, d time.Duration) {
	if !m.measure.Load() {
		return
	}
	m.mu.Lock()
	*to = append(*to, d)
	m.mu.Unlock()
}

// scoreBatches scores one request after another.
func (m *measurement) scoreBatches(ctx context.Context) error {
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
func (m *measurement) batchRate() float64 { return float64(m.scored) / m.took.Seconds() }

// tokenRate is the number of tokens that the model computes per second.
func (m *measurement) tokenRate() float64 { return m.tokens / m.took.Seconds() }

func (m *measurement) row(against baseline) string {
	cells := []any{m.streams, map[bool]string{false: "no", true: "yes"}[m.batch]}
	cells = append(cells, slices.Repeat([]any{"-"}, 13)...)
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
	cells[9] = fmt.Sprintf("%.0f", m.tokenRate())
	if m.calls > 0 {
		cells[10] = fmt.Sprintf("%.0f", m.tokens/m.calls)
	}
	if m.batch {
		cells[11] = format(m.batchRate())
		cells[12] = percent(m.batchRate(), against.batch)
		cells[13] = percent(against.batchTokens-against.streamTokens, against.batchTokens)
		cells[14] = percent(m.tokenRate(), against.batchTokens)
	}
	return fmt.Sprintf(strings.Repeat("%v\t", len(cells))+"\n", cells...)
}
