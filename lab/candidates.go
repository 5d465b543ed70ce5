package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"text/tabwriter"

	"github.com/rs/zerolog"

	"assay/lab/flags"
	"assay/lab/paper/reproduce"
	"assay/lab/stats"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/feedback"
	"assay/rewardmodel/logistic"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// candidatesCmd compares what a model learns from labels of the suggested candidates with what it learns from labels of
// random responses.
type candidatesCmd struct {
	Bags   []string `required:"" placeholder:"FILE" help:"Bag files (JSONL): the pool, whose labels are revealed on request."`
	Test   []string `required:"" placeholder:"FILE" help:"Bag files (JSONL) to measure on."`
	Init   string   `required:"" placeholder:"DIR" help:"Checkpoint directory that each training run initializes from."`
	Ask    []string `default:"random,candidates" enum:"random,candidates,uncertain,diverse" help:"How to choose bags (${enum}); the others are compared with the first (${default})."`
	Share  float64  `default:"0" name:"violations" help:"Downsample the violations of the pool to this share of it; 0: keep all."`
	Start  int      `default:"100" help:"Random bags that are labeled initially (${default})."`
	Step   int      `default:"50" help:"Bags that a round adds (${default})."`
	Rounds int      `default:"4" help:"Rounds (${default})."`
	Seeds  []uint64 `default:"0,1,2" help:"Seeds of the initial bags, the random ones and the training runs (${default})."`
	Epochs int      `default:"5" help:"Epochs of a training run (${default})."`
	LR     float64  `default:"1e-5" name:"lr" help:"Peak learning rate of a training run (${default})."`
	Batch  int      `default:"16" help:"Instances of a mini-batch (${default})."`
	localmodel.ComputeFlags
}

// Help is shown by --help.
func (*candidatesCmd) Help() string {
	return `Example:

    assay-lab bench candidates --bags train.jsonl --test test.jsonl --init models/default

Each round reveals the labels of --step more bags, trains from --init on all labels and measures. "candidates" is the
choice of GET /v1/feedback/candidates; "uncertain" uses only the uncertainty, "diverse" only the diversity.`
}

// Run is called by kong.
func (c *candidatesCmd) Run(a *cli.App) (err error) {
	if min(c.Start, c.Step, c.Rounds, c.Epochs, c.Batch) < 1 || len(c.Seeds) == 0 {
		return cli.Usage(errors.New("--start, --step, --rounds, --epochs and --batch take positive numbers, --seeds at least one"))
	}
	if !(c.Share >= 0 && c.Share < 1) {
		return cli.Usage(fmt.Errorf("--violations is %v; use a share in (0,1), or 0 (as it is)", c.Share))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	base, tok, err := localmodel.OpenBase(c.Init)
	if err != nil {
		return err
	}
	defer base.Close()
	pool, err := flags.Bags("--bags", c.Bags)
	if err != nil {
		return err
	}
	test, err := flags.Bags("--test", c.Test)
	if err != nil {
		return err
	}
	device, err := c.Compute().Runtime()
	if err != nil {
		return err
	}
	defer device.Close()
	b := &labelBench{candidatesCmd: c, base: base, device: device, pool: pool, log: a.Log}
	if b.data, _, err = localmodel.TokenizeBags(ctx, pool, tok, base.MaxLength()); err != nil {
		return err
	}
	if b.test, _, err = localmodel.TokenizeBags(ctx, test, tok, base.MaxLength()); err != nil {
		return err
	}
	if len(b.data.Bags) != len(pool) {
		return cli.Usage(errors.New("--bags holds responses without an utterance"))
	}
	var rows []labelRow
	for _, seed := range c.Seeds {
		more, err := b.seed(ctx, seed)
		if err != nil {
			return err
		}
		rows = append(rows, more...)
	}
	return c.print(a, rows)
}

// labelBench is the state that all rounds share.
type labelBench struct {
	*candidatesCmd
	base       *checkpoint.Checkpoint
	device     *encoder.Runtime
	pool       []bag.Bag   // in the order of data
	data, test *train.Data // the pool and the test bags, as a learner sees them
	log        zerolog.Logger
}

// labelRow is the result of one training run.
type labelRow struct {
	seed       uint64
	ask        string
	round      int // 0: the initial bags
	labeled    int
	violations int // of these
	auroc      float64
	avgAcc     float64
}

// seed runs all ways to choose bags from the same initial bags.
func (b *labelBench) seed(ctx context.Context, seed uint64) (rows []labelRow, err error) {
	order := b.order(seed)
	if need := b.Start + b.Step*b.Rounds; need > len(order) {
		return nil, cli.Usage(fmt.Errorf("--bags holds %d bags; --start and --rounds of --step take %d", len(order), need))
	}
	first := labelRow{seed: seed}
	start, err := b.learn(ctx, &first, order[:b.Start], true)
	if err != nil {
		return nil, err
	}
	for _, ask := range b.Ask {
		first.ask = ask
		rows = append(rows, first)
		labeled, now := slices.Clone(order[:b.Start]), start
		var before []feedback.Score
		for round := 1; round <= b.Rounds; round++ {
			chosen, err := b.next(ctx, ask, order, labeled, now, before)
			if err != nil {
				return nil, err
			}
			labeled = append(labeled, chosen...)
			row := labelRow{seed: seed, ask: ask, round: round}
			before = now
			if now, err = b.learn(ctx, &row, labeled, ask != "random" && round < b.Rounds); err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// order shuffles the pool, without the violations that --violations removes.
func (b *labelBench) order(seed uint64) []int {
	rng := rand.New(rand.NewPCG(seed, 0xa5c))
	order := rng.Perm(len(b.pool))
	if b.Share == 0 {
		return order
	}
	_, compliant, _, _ := b.data.Counts()
	keep := int(b.Share / (1 - b.Share) * float64(compliant))
	var thinned []int
	for _, i := range order {
		if b.data.Bags[i].Violation {
			if keep--; keep < 0 {
				continue
			}
		}
		thinned = append(thinned, i)
	}
	rng.Shuffle(len(thinned), func(i, j int) { thinned[i], thinned[j] = thinned[j], thinned[i] })
	return thinned
}

// next chooses the bags to label, from the scores of the pool by the current model and the one before it.
func (b *labelBench) next(ctx context.Context, ask string, order, labeled []int, now, before []feedback.Score) (chosen []int, err error) {
	known := make([]bool, len(b.pool))
	for _, i := range labeled {
		known[i] = true
	}
	rest := slices.DeleteFunc(slices.Clone(order), func(i int) bool { return known[i] })
	if ask == "random" {
		return rest[:b.Step], nil
	}
	var opts feedback.RankOptions
	switch ask {
	case "uncertain":
		opts.Diversity, opts.Explore = math.SmallestNonzeroFloat64, math.SmallestNonzeroFloat64
	case "diverse":
		opts.Diversity, opts.Explore = 1, math.SmallestNonzeroFloat64
	}
	at := make(map[string]int, len(rest))
	var scored []feedback.Scored
	for _, i := range rest {
		at[b.pool[i].ID] = i
		s := feedback.Scored{Bag: b.pool[i], Score: now[i]}
		if before != nil {
			s.Other = &before[i]
		}
		scored = append(scored, s)
	}
	candidates, err := feedback.Rank(ctx, scored, b.Step, opts)
	for _, c := range candidates {
		chosen = append(chosen, at[c.ID])
	}
	return chosen, err
}

// learn trains on the labeled bags, fills in the row and, if scored, returns the scores of the pool.
func (b *labelBench) learn(ctx context.Context, row *labelRow, labeled []int, scored bool) (scores []feedback.Score, err error) {
	data := &train.Data{}
	for _, i := range labeled {
		data.Bags = append(data.Bags, b.data.Bags[i])
	}
	row.labeled = len(labeled)
	row.violations, _, _, _ = data.Counts()
	method, err := train.NewMethod("bfgpu", train.Settings{})
	if err != nil {
		return nil, err
	}
	learner, err := b.device.NewLearner(b.base, encoder.LearnerOptions{Precision: encoder.Precision(b.Precision), Seed: row.seed})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, learner.Close()) }()
	result, err := train.Run(ctx, learner, data, train.Config{
		Method: method, Epochs: b.Epochs, Batch: b.Batch, Rate: b.LR, Seed: row.seed,
		Threshold: method.Threshold(), Rescale: learner.Rescale,
	})
	if err != nil {
		return nil, err
	}
	tested, err := train.ScoreBags(ctx, learner, 0, b.test, method)
	if err != nil {
		return nil, err
	}
	threshold := logistic.Sigmoid(result.Threshold)
	metrics, err := reproduce.Measure(b.test, tested, threshold)
	if err != nil {
		return nil, err
	}
	row.auroc, row.avgAcc = metrics["bag_auroc"], metrics["avg_acc"]
	b.log.Info().Uint64("seed", row.seed).Str("ask", row.ask).Int("labeled", row.labeled).Int("violations", row.violations).
		Float64("bag_auroc", row.auroc).Float64("avg_acc", row.avgAcc).Msg("trained")
	if !scored {
		return nil, nil
	}
	judged, err := train.ScoreBags(ctx, learner, 0, b.data, method)
	if err != nil {
		return nil, err
	}
	for _, s := range judged {
		scores = append(scores, feedback.Score{Violation: logistic.Sigmoid(s.Bag), Threshold: threshold})
	}
	return scores, nil
}

// print writes one line per round and way to choose, with the differences from the first way, paired by seed.
func (c *candidatesCmd) print(a *cli.App, rows []labelRow) error {
	table := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "labeled\tviolations\task\tAUROC of each seed\tmean\tdifference\tAvgAcc mean\tdifference\t")
	for round := 0; round <= c.Rounds; round++ {
		asks := c.Ask
		if round == 0 {
			asks = asks[:1]
		}
		for _, ask := range asks {
			auroc, avgAcc, one := metricsOf(rows, func(r labelRow) bool { return r.ask == ask && r.round == round })
			compareAUROC, compareAcc, _ := metricsOf(rows, func(r labelRow) bool { return r.ask == c.Ask[0] && r.round == round })
			fmt.Fprintf(table, "%d\t%d\t%s\t%s\t%.2f\t%s\t%.2f\t%s\t\n", one.labeled, one.violations, ask,
				percents(auroc), stats.Mean(auroc), difference(auroc, compareAUROC), stats.Mean(avgAcc), difference(avgAcc, compareAcc))
		}
	}
	for _, ask := range c.Ask[1:] { // the mean over the rounds is the area under the learning curve
		var auroc, avgAcc, compareAUROC, compareAcc []float64
		for _, seed := range c.Seeds {
			of, ofAcc, _ := metricsOf(rows, func(r labelRow) bool { return r.ask == ask && r.round > 0 && r.seed == seed })
			other, otherAcc, _ := metricsOf(rows, func(r labelRow) bool { return r.ask == c.Ask[0] && r.round > 0 && r.seed == seed })
			auroc, avgAcc = append(auroc, stats.Mean(of)), append(avgAcc, stats.Mean(ofAcc))
			compareAUROC, compareAcc = append(compareAUROC, stats.Mean(other)), append(compareAcc, stats.Mean(otherAcc))
		}
		fmt.Fprintf(table, "all rounds\t\t%s\t%s\t%.2f\t%s\t%.2f\t%s\t\n", ask, percents(auroc), stats.Mean(auroc),
			difference(auroc, compareAUROC), stats.Mean(avgAcc), difference(avgAcc, compareAcc))
	}
	return table.Flush()
}

// metricsOf returns the metrics of the chosen rows in percent, and one of the rows with the mean of their violations.
func metricsOf(rows []labelRow, chosen func(labelRow) bool) (auroc, avgAcc []float64, one labelRow) {
	violations := 0
	for _, r := range rows {
		if chosen(r) {
			auroc, avgAcc, one = append(auroc, 100*r.auroc), append(avgAcc, 100*r.avgAcc), r
			violations += r.violations
		}
	}
	one.violations = violations / max(len(auroc), 1)
	return auroc, avgAcc, one
}

func percents(values []float64) (out string) {
	for i, v := range values {
		if i > 0 {
			out += " "
		}
		out += fmt.Sprintf("%.1f", v)
	}
	return out
}

// difference formats the mean of paired differences and its standard error; "" where all pairs are equal.
func difference(values, from []float64) string {
	if slices.Equal(values, from) {
		return ""
	}
	mean, stdErr := stats.Difference(values, from)
	if math.IsNaN(stdErr) {
		return fmt.Sprintf("%+.2f", mean)
	}
	return fmt.Sprintf("%+.2f ± %.2f", mean, stdErr)
}
