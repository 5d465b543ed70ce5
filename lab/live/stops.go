package live

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"assay/lab/flags"
	"assay/lab/stats"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// stopsCmd measures where live scoring stops responses.
type stopsCmd struct {
	Sets        []string `arg:"" name:"file" help:"Bag files (JSONL); each is a set."`
	Chunk       int      `default:"200" help:"Words of a chunk of the scanner that is compared (${default})."`
	Overlap     int      `default:"50" help:"Words that a chunk repeats of the one before it (${default})."`
	Concurrency int      `default:"64" help:"Responses that are scored at the same time (${default})."`
	scorerFlags
}

// Help is shown by --help.
func (*stopsCmd) Help() string {
	return `Example:

    go run ./models/build sets
    assay-lab bench live stops models/work/test-toxic_spans.jsonl models/work/test-diasafety.jsonl

Feeds each response word by word to a live session, and prints four rows for each set:

  stop      stops at the first event with stop: whatever follows, the response violates
  verdict   stops at the first event that is not compliant: the response violates if it ends here
  chunks    scores each chunk of --chunk words, of which --overlap repeat the chunk before it, as a response of its own,
            as NeMo Guardrails does, and stops at the first that is not compliant
  whole     scores the response when it is complete

and these columns, in percent of the violating responses, of the located ones, and of the compliant ones:

  stopped   violating responses that are stopped
  before    located responses that are stopped by a sentence before the first violating one,
  in        by that sentence,
  next      by the one after it,
  later     by a later one;
  false     compliant responses that are stopped
  read      mean share of the characters of a stopped violating response that were read
  chars     their median number
  past      median characters that were read after the end of the first violating sentence of a located response

A violating response is located if spans of the violation are known or it has a single sentence.`
}

// stopMethods are the rows of a set.
var stopMethods = [...]string{"stop", "verdict", "chunks", "whole"}

// stopped is where a method stops a response.
type stopped struct {
	stops bool
	read  int // code points of the text until then
	// decided is the end of the text that the decision is about, in code points: at
	// most read, since a session reads on to know that a sentence has ended.
	decided int
}

// stops are those of all methods for one response.
type stops struct {
	bag.Bag
	length  int
	spans   [][2]int // of the sentences, in code points
	located bool
	first   int // index of the first violating sentence, if located
	by      [len(stopMethods)]stopped
}

func (c *stopsCmd) validate() error {
	if c.Chunk < 1 || c.Overlap < 0 || c.Overlap >= c.Chunk || c.Concurrency < 1 || c.MaxInstances < 1 {
		return cli.Usage(errors.New("--chunk, --concurrency and --max-instances take positive numbers, --overlap 0 or more and less than --chunk"))
	}
	return nil
}

// Run is called by kong.
func (c *stopsCmd) Run(a *cli.App) (err error) {
	if err := c.validate(); err != nil {
		return err
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	sets := make([][]bag.Bag, len(c.Sets))
	for i, file := range c.Sets {
		if sets[i], err = flags.Bags("FILE", []string{file}); err != nil {
			return err
		}
	}
	model, closeAll, err := c.open(ctx, localmodel.DefaultCacheBytes, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "set\tviolating\tlocated\tcompliant\tmethod\tstopped %\tbefore %\tin %\tnext %\tlater %\tfalse %\tread %\tchars\tpast\t")
	for i, bags := range sets {
		measured, err := c.measure(ctx, model.Scorer, bags)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(c.Sets[i]), ".jsonl")
		for method, label := range stopMethods {
			fmt.Fprint(table, stopRow(name, label, method, measured))
		}
		a.Log.Info().Str("set", name).Int("responses", len(measured)).Msg("measured")
	}
	return table.Flush()
}

// measure runs all methods on the responses that have a label.
func (c *stopsCmd) measure(ctx context.Context, scorer *rewardmodel.Scorer, bags []bag.Bag) ([]stops, error) {
	bags = slices.DeleteFunc(slices.Clone(bags), func(b bag.Bag) bool { return b.Verdict() == "" })
	out := make([]stops, len(bags))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.Concurrency)
	for i, b := range bags {
		group.Go(func() (err error) {
			out[i], err = c.stopsOf(ctx, scorer, b)
			return err
		})
	}
	return out, group.Wait()
}

func (c *stopsCmd) stopsOf(ctx context.Context, scorer *rewardmodel.Scorer, b bag.Bag) (stops, error) {
	text := strings.Join(b.Texts(), "\n")
	s := stops{Bag: b, length: utf8.RuneCountInString(text)}
	result, err := s.live(ctx, scorer, text)
	if err != nil {
		return stops{}, err
	}
	for _, instance := range result.Instances {
		s.spans = append(s.spans, [2]int{instance.Start, instance.End})
	}
	s.locate()
	if !result.Compliant {
		s.by[3] = stopped{true, s.length, s.length}
	}
	s.by[2], err = c.chunks(ctx, scorer, text)
	return s, err
}

// live feeds the text word by word.
func (s *stops) live(ctx context.Context, scorer *rewardmodel.Scorer, text string) (rewardmodel.Result, error) {
	session, err := scorer.Live(ctx, rewardmodel.LiveRequest{})
	if err != nil {
		return rewardmodel.Result{}, err
	}
	read := 0
	note := func(events []rewardmodel.LiveEvent) {
		for _, e := range events {
			if e.Reset || e.Utterance.Provisional {
				continue
			}
			for method, stop := range []bool{e.Stop, !e.Compliant} {
				if by := &s.by[method]; stop && !by.stops {
					*by = stopped{true, read, e.Utterance.End}
				}
			}
		}
	}
	for _, word := range tokensOf(text) {
		read += utf8.RuneCountInString(word)
		events, err := session.Feed(ctx, word)
		if err != nil {
			return rewardmodel.Result{}, err
		}
		note(events)
	}
	events, answer, err := session.Close(ctx)
	if err != nil {
		return rewardmodel.Result{}, err
	}
	note(events)
	return answer.Results[0], nil
}

// chunks scores each chunk as a response.
func (c *stopsCmd) chunks(ctx context.Context, scorer *rewardmodel.Scorer, text string) (stopped, error) {
	words := tokensOf(text)
	for start := 0; ; start += c.Chunk - c.Overlap {
		end := min(start+c.Chunk, len(words))
		chunk := strings.Join(words[start:end], "")
		answer, err := scorer.Score(ctx, rewardmodel.Request{Responses: []rewardmodel.Item{{Response: &chunk}}, Priority: rewardmodel.PriorityInteractive})
		if err != nil {
			return stopped{}, err
		}
		if !answer.Results[0].Compliant {
			read := utf8.RuneCountInString(strings.Join(words[:end], ""))
			return stopped{true, read, read}, nil
		}
		if end == len(words) {
			return stopped{}, nil
		}
	}
}

// locate finds the first violating sentence of a violation.
func (s *stops) locate() {
	if s.Verdict() != bag.Violation {
		return
	}
	if len(s.spans) == 1 {
		s.located = true
		return
	}
	s.first = slices.IndexFunc(s.spans, func(sentence [2]int) bool {
		return slices.ContainsFunc(s.Spans, func(span [2]int) bool { return span[0] < sentence[1] && sentence[0] < span[1] })
	})
	s.located = s.first >= 0
}

// sentence is the index of the sentence that the end of a text is in.
func (s *stops) sentence(end int) int {
	after := slices.IndexFunc(s.spans, func(sentence [2]int) bool { return end <= sentence[1] })
	if after < 0 {
		return len(s.spans) - 1
	}
	return after
}

func stopRow(set, label string, method int, all []stops) string {
	var violating, located, compliant, halted, before, in, next, later, wrong, read float64
	var chars, past []float64
	for i := range all {
		s := &all[i]
		by := s.by[method]
		if s.Verdict() == bag.Compliant {
			compliant++
			wrong += one(by.stops)
			continue
		}
		violating++
		located += one(s.located)
		if !by.stops {
			continue
		}
		halted++
		read += float64(by.read) / float64(max(s.length, 1))
		chars = append(chars, float64(by.read))
		if !s.located {
			continue
		}
		distance := s.sentence(by.decided) - s.first
		before, in, next, later = before+one(distance < 0), in+one(distance == 0), next+one(distance == 1), later+one(distance > 1)
		past = append(past, float64(by.read-s.spans[s.first][1]))
	}
	return fmt.Sprintf("%s\t%.0f\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", set, violating, located, compliant, label,
		percent(halted, violating), percent(before, located), percent(in, located), percent(next, located), percent(later, located),
		percent(wrong, compliant), percent(read, halted), median(chars), median(past))
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

func percent(part, whole float64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100*part/whole)
}

func median(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", math.Round(stats.Median(values)))
}
