package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"text/tabwriter"

	"github.com/rs/zerolog"

	"assay/lab/stats"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/bag/synthetic"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/eval"
	"assay/rewardmodel/tokenizer"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// aspectsCmd compares a model with two aspects with models of one, on synthetic bags whose truth is known.
type aspectsCmd struct {
	Data   string   `env:"ASSAY_DATA" default:"../shared/data" placeholder:"DIR" help:"Directory of the data sets; sst2_stsa in it has the sentences (${default})."`
	Init   string   `default:"default" placeholder:"DIR" help:"Checkpoint directory that each training run initializes from (${default})."`
	Bags   int      `default:"400" help:"Training bags (${default})."`
	Sigma  int      `default:"4" help:"Normal sentences per bag, in addition to the one that may violate (${default})."`
	Seeds  []uint64 `default:"0,1,2" help:"Seeds of the bags and of the training runs (${default})."`
	Epochs int      `default:"4" help:"Epochs of a training run (${default})."`
	LR     float64  `default:"3e-5" name:"lr" help:"Peak learning rate of a training run (${default})."`
	Bag    float64  `default:"0" name:"lambda-bag" placeholder:"NUMBER" help:"Coefficient of the loss of the witness against the label of its bag (${default}: none)."`
	localmodel.ComputeFlags
}

// Help is shown by --help.
func (*aspectsCmd) Help() string {
	return `Example:

    assay-lab bench aspects --seeds 0,1,2

Sentences of SST-2. A bag violates the aspect "negative" if one of its sentences is negative, and independently the
aspect "acting" if one speaks of the actors. Compared are two models of one aspect, one model trained on both, the same on
bags that are labeled for one aspect each, and that one after further training on labels of "negative" alone.`
}

// The aspects of the bags.
const (
	negativeAspect = "negative"
	actingAspect   = "acting"
)

// acting matches the sentences that violate actingAspect.
var acting = regexp.MustCompile(`(?i)\b(act(or|ors|ress|resses|ing|ed)|performances?|performers?|cast)\b`)

// Run is called by kong.
func (c *aspectsCmd) Run(a *cli.App) error {
	if min(c.Bags, c.Sigma, c.Epochs) < 1 || len(c.Seeds) == 0 || !(c.Bag >= 0) {
		return cli.Usage(errors.New("--bags, --sigma and --epochs take positive numbers, --lambda-bag 0 or a positive one, --seeds at least one"))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	base, tok, err := localmodel.OpenBase(c.Init)
	if err != nil {
		return err
	}
	defer base.Close()
	sentences, err := synthetic.Load(synthetic.SST2, c.Data)
	if err != nil {
		return cli.Usage(fmt.Errorf("--data: %w", err))
	}
	device, err := c.Compute().Runtime()
	if err != nil {
		return err
	}
	defer device.Close()
	b := &aspectsBench{aspectsCmd: c, base: base, tok: tok, device: device, log: a.Log}
	table := map[string][]float64{}
	for _, seed := range c.Seeds {
		if err := b.seed(ctx, sentences, seed, table); err != nil {
			return err
		}
	}
	out := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "AUROC of test bags, mean of %d seeds (least to largest)\t%s\t%s\n", len(c.Seeds), negativeAspect, actingAspect)
	for _, name := range []string{runAlone, runBoth, runDisjoint, runFurther} {
		fmt.Fprintf(out, "%s", name)
		for _, aspect := range []string{negativeAspect, actingAspect} {
			x := table[name+aspect]
			fmt.Fprintf(out, "\t%.3f (%.3f to %.3f)", stats.Mean(x), slices.Min(x), slices.Max(x))
		}
		fmt.Fprintln(out)
	}
	return out.Flush()
}

// The rows of the table.
const (
	runAlone    = "a model for each aspect"
	runBoth     = "both, on the same bags"
	runDisjoint = "both, each labeled on half of the bags"
	runFurther  = "the same, trained further on labels of the first"
)

type aspectsBench struct {
	*aspectsCmd
	base   *checkpoint.Checkpoint
	tok    *tokenizer.Tokenizer
	device *encoder.Runtime
	log    zerolog.Logger
}

// seed adds the results of one seed to the table.
func (b *aspectsBench) seed(ctx context.Context, s synthetic.Sentences, seed uint64, table map[string][]float64) error {
	rng := rand.New(rand.NewPCG(seed, 0xa5))
	training, err := b.data(ctx, b.sample(s.Train, b.Bags, rng))
	if err != nil {
		return err
	}
	further, err := b.data(ctx, b.sample(s.Train, b.Bags, rng))
	if err != nil {
		return err
	}
	test, err := b.data(ctx, b.sample(s.Test, 2*b.Bags, rng))
	if err != nil {
		return err
	}
	half := len(training[0].Bags) / 2
	disjoint := []*train.Data{{Bags: training[0].Bags[:half]}, {Bags: training[1].Bags[half:]}}
	for a, name := range []string{negativeAspect, actingAspect} {
		alone := [][]*train.Data{{training[a]}}
		if err := b.run(ctx, seed, []string{name}, alone, []*train.Data{test[a]}, []string{runAlone}, table); err != nil {
			return err
		}
	}
	names := []string{negativeAspect, actingAspect}
	if err := b.run(ctx, seed, names, [][]*train.Data{training}, test, []string{runBoth}, table); err != nil {
		return err
	}
	return b.run(ctx, seed, names, [][]*train.Data{disjoint, {further[0], nil}}, test, []string{runDisjoint, runFurther}, table)
}

// run trains one model in rounds and measures it after each.
func (b *aspectsBench) run(ctx context.Context, seed uint64, names []string, rounds [][]*train.Data, test []*train.Data, rows []string, table map[string][]float64) (err error) {
	opts := encoder.LearnerOptions{Precision: encoder.Precision(b.Precision), Seed: seed}
	for _, name := range names {
		opts.Aspects = append(opts.Aspects, encoder.AspectInit{Name: name})
	}
	learner, err := b.device.NewLearner(b.base, opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, learner.Close()) }()
	method := train.DefaultBFGPU()
	method.LambdaBag = b.Bag
	for i, data := range rounds {
		_, err := train.RunAspects(ctx, learner, data, train.Config{
			Method: method, Epochs: b.Epochs, Batch: 32, Rate: b.LR, Seed: seed, Threshold: method.Threshold(),
		})
		if err != nil {
			return err
		}
		for a, name := range names {
			scores, err := train.ScoreBags(ctx, learner, a, test[a], method)
			if err != nil {
				return err
			}
			margins, truth := make([]float64, len(scores)), make([]bool, len(scores))
			for k, s := range scores {
				margins[k], truth[k] = s.Bag, test[a].Bags[k].Violation
			}
			auroc := eval.AUROC(margins, truth)
			table[rows[i]+name] = append(table[rows[i]+name], auroc)
			b.log.Info().Uint64("seed", seed).Str("run", rows[i]).Str("aspect", name).Float64("auroc", auroc).Msg("measured")
		}
	}
	return nil
}

// data tokenizes bags for both aspects.
func (b *aspectsBench) data(ctx context.Context, bags []bag.Bag) ([]*train.Data, error) {
	data, _, err := localmodel.TokenizeAspects(ctx, bags, b.tok, localmodel.BagOptions{
		Aspects: []string{negativeAspect, actingAspect}, MaxLength: b.base.MaxLength(),
	})
	return data, err
}

// sample draws n bags, each of which violates each aspect with probability one half.
func (b *aspectsBench) sample(s synthetic.Split, n int, rng *rand.Rand) []bag.Bag {
	cells := map[[2]bool][]string{}
	for negative, texts := range map[bool][]string{false: s.Normal, true: s.Anomalous} {
		for _, text := range texts {
			key := [2]bool{negative, acting.MatchString(text)}
			cells[key] = append(cells[key], text)
		}
	}
	draw := func(negative, aboutActing bool) string {
		texts := cells[[2]bool{negative, aboutActing}]
		return texts[rng.IntN(len(texts))]
	}
	label := map[bool]bag.Label{false: bag.Compliant, true: bag.Violation}
	bags := make([]bag.Bag, n)
	for i := range bags {
		negative, aboutActing := rng.IntN(2) == 0, rng.IntN(2) == 0
		instances := make([]string, b.Sigma+1)
		for k := range instances {
			instances[k] = draw(false, false)
		}
		at := rng.Perm(len(instances))
		if negative {
			instances[at[0]] = draw(true, false)
		}
		if aboutActing {
			instances[at[1]] = draw(false, true)
		}
		bags[i] = bag.Bag{
			ID: fmt.Sprintf("bag-%05d", i), Instances: instances,
			Labels: map[string]bag.Label{negativeAspect: label[negative], actingAspect: label[aboutActing]},
		}
	}
	return bags
}
