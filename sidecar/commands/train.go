package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rs/zerolog"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
	"assay/rewardmodel/encoder"
	"assay/rewardmodel/gate"
	"assay/rewardmodel/train"
	"assay/sidecar/cli"
	"assay/sidecar/localmodel"
)

// Train trains an instance classifier on bags with coarse labels and writes a checkpoint directory.
type Train struct {
	Bags   []string `required:"" help:"Bag files (JSONL) to train on." placeholder:"FILE"`
	Init   string   `required:"" help:"Checkpoint directory to initialize from, or its name under models/; a base model gets a randomly initialized classification head." placeholder:"DIR"`
	Out    string   `required:"" help:"Checkpoint directory to write." placeholder:"DIR"`
	Method string   `default:"bfgpu" help:"Training method: bfgpu, or one of the baselines mil-max, mil-topk, upu, nnpu, balancedpu, robustpu and oracle."`

	Seed            uint64   `default:"0" help:"Seed of shuffling, dropout and a new classification head."`
	LR              float64  `default:"1e-5" name:"lr" help:"Peak learning rate of the cosine schedule."`
	LRMin           float64  `default:"0" name:"lr-min" help:"Final learning rate of the schedule."`
	Warmup          float64  `default:"0" help:"Share of the steps, in [0,1), over which the learning rate rises to its peak."`
	Epochs          int      `default:"5" help:"Number of epochs; 0: only choose the threshold again."`
	Batch           int      `default:"16" help:"Instances per mini-batch."`
	WeightDecay     float64  `default:"0" help:"Decoupled weight decay; 0: plain Adam."`
	Dropout         float64  `default:"-1" help:"Dropout probability; -1: as in config.json."`
	MaxLength       int      `default:"0" help:"Maximum tokens per instance, including special tokens; longer instances are split. 0: the limit of the model."`
	Aspects         []string `help:"Aspects (rules) of the trained model, in the order of its logits; default: those of --init. One that --init does not have starts untrained; the first one starts from --init if that has a single unnamed aspect." placeholder:"NAME"`
	MinEach         int      `default:"1" help:"Minimum bags per label of an aspect that is trained, of a model with several; one with fewer is kept as it is, unless all have fewer."`
	Context         bool     `help:"Train a model that reads the prompt; always so if --init does."`
	ContextTokens   int      `default:"0" help:"Maximum tokens that the model reads of the end of the prompt, including special tokens; 0: as --init, or 128."`
	ContextDropout  float64  `default:"0.3" help:"Probability in [0,1] that a response is trained on without its prompt in an epoch."`
	WholeCharacters int      `default:"-1" help:"Maximum length, in characters, of a response of several utterances that is also scored as a whole; 0: none is; -1: as --init."`
	MaxTokens       int      `default:"8192" help:"Maximum tokens per forward pass; larger mini-batches use gradient accumulation."`

	localmodel.MethodFlags
	Calibrate  bool   `default:"true" negatable:"" help:"Calibrate the scores to probabilities of the bag labels after the last epoch (Platt scaling); their order does not change."`
	Embeddings string `default:"dense" enum:"dense,touched" help:"Rows of the word embeddings that a step updates (${enum}): all, as in Adam, or only those in the mini-batch."`

	DType     string   `default:"fp32" name:"dtype" enum:"fp32,bf16,int8" help:"Dtype of the written weights (${enum}); int8: the matrices of the layers are quantized, row by row, and the rest is bf16."`
	ModelName string   `help:"Model name in the version; default: the name of the output directory."`
	DataName  []string `help:"Names of the data sets, recorded in assay.json."`
	Progress  string   `default:"auto" enum:"auto,json" help:"Progress reports (${enum}): auto, a bar on a terminal, log lines otherwise; json, in addition JSON Lines on standard output, at most one per second and one at the end of each stage."`
	localmodel.ComputeFlags
}

// Help is shown by --help.
func (*Train) Help() string {
	return `Example:

    assay train --bags feedback.jsonl --init models/default --out models/mine --epochs 2 --lr 2e-5

Each line of FILE is {"id","label":"violation"|"compliant","response"}. An interrupted run resumes after its last
complete epoch when you start it again with the same settings. To choose only the threshold again:

    assay train --epochs 0 --no-calibrate --threshold false-alarms --false-alarms 0.02 --bags held-out.jsonl --init models/mine --out models/strict

--progress json is for programs:
{"epoch","epochs","stage","step","steps","loss","seconds_left"}.`
}

// Run is called by kong.
func (c *Train) Run(a *cli.App) error {
	if c.Precision == string(encoder.Int8) {
		return cli.Usage(errors.New("--precision int8 does not support training; train with auto, bf16 or fp32, and score with int8"))
	}
	ctx, stop := a.UntilSignal()
	defer stop()
	report := newTrainProgress(a)
	defer report.close()
	observe := report.observe
	if c.Progress == "json" {
		lines := &progressLines{out: a.Stdout}
		defer lines.close()
		observe = func(now train.Progress) {
			report.observe(now)
			lines.observe(now)
		}
	}
	return c.Train(ctx, a.Log, observe)
}

// Train trains and writes the checkpoint. It calls report with the progress.
func (c *Train) Train(ctx context.Context, log zerolog.Logger, report func(train.Progress)) error {
	base, tok, err := localmodel.OpenBase(c.Init)
	if err != nil {
		return err
	}
	defer base.Close()
	maxLength := base.MaxLength()
	if c.MaxLength > 0 {
		maxLength = min(maxLength, c.MaxLength)
	}
	method, err := c.MethodFlags.Method(c.Method)
	if err != nil {
		return cli.Usage(fmt.Errorf("--method: %w", err))
	}
	aspects, err := c.aspects(base)
	if err != nil {
		return cli.Usage(fmt.Errorf("--aspects: %w", err))
	}
	contextTokens, err := c.contextTokens(base)
	if err != nil {
		return cli.Usage(err)
	}
	if !(c.FalseAlarms > 0 && c.FalseAlarms < 0.5) {
		return cli.Usage(fmt.Errorf("--false-alarms is %v; give a share in (0,0.5)", c.FalseAlarms))
	}
	options := localmodel.BagOptions{MaxLength: maxLength, ContextTokens: contextTokens, MinEach: c.MinEach}
	threshold := c.thresholdFor(base, method)
	if options.WholeCharacters = c.WholeCharacters; c.WholeCharacters < 0 {
		options.WholeCharacters = base.Manifest.WholeCharacters
	}
	options.CompliantOnly = c.Epochs == 0 && !c.Calibrate && threshold == train.FalseAlarms
	for _, a := range aspects {
		options.Aspects = append(options.Aspects, a.Name)
	}
	data, digest, err := localmodel.ReadBags(ctx, c.Bags, tok, options, log)
	if err != nil {
		return err
	}
	for a, d := range data {
		if d == nil && !startsTrained(base, aspects[a]) {
			return cli.Usage(fmt.Errorf("--bags: the aspect %s cannot be trained, and --init does not have it; label bags of both kinds for it, or omit it from --aspects", aspects[a].Name))
		}
		if d == nil {
			continue
		}
		violating, compliant, unlabeled, normal := d.Counts()
		log.Info().Str("aspect", aspects[a].Name).Int("violating_bags", violating).Int("compliant_bags", compliant).
			Int("instances", unlabeled+normal).Str("init", base.Dir).Msg("training")
	}

	runtime, err := c.Compute().Runtime()
	if err != nil {
		return err
	}
	defer runtime.Close()
	learner, err := runtime.NewLearner(base, c.learnerOptions(aspects, options.ContextTokens > 0))
	if err != nil {
		return err
	}
	identity := fmt.Sprintf("init=%s bags=%s dropout=%g decay=%g embeddings=%s aspects=%v context=%d precision=%s max-tokens=%d",
		base.Dir, digest, c.Dropout, c.WeightDecay, c.Embeddings, options.Aspects, options.ContextTokens, c.Precision, c.MaxTokens)
	if c.MaxLength > 0 {
		identity += fmt.Sprintf(" max-length=%d", maxLength)
	}
	if len(aspects) > 1 && c.MinEach > 1 {
		identity += fmt.Sprintf(" min-each=%d", c.MinEach)
	}
	if options.WholeCharacters > 0 {
		identity += fmt.Sprintf(" whole-characters=%d", options.WholeCharacters)
	}
	state := filepath.Clean(c.Out) + ".training"
	var rescale func(aspect int, scale, shift float64) error
	if c.Calibrate {
		rescale = learner.Rescale
	}
	results, err := train.RunAspects(ctx, learner, data, train.Config{
		Method: method,
		Epochs: c.Epochs, Batch: c.Batch, Rate: c.LR, RateMin: c.LRMin, Warmup: c.Warmup, Seed: c.Seed,
		Threshold: threshold, FalseAlarms: c.falseAlarms(startAspects(base, aspects)), Fold: c.Fold, SigmaMicro: c.SigmaMicro, SigmaMacro: c.SigmaMacro,
		State: state, Identity: identity,
		HideContext: c.hideContext(options), LambdaComparison: c.LambdaComparison, Rescale: rescale, Report: report,
	})
	if err != nil {
		return err
	}
	for a, result := range results {
		if result.Uncalibrated != nil {
			log.Warn().Str("aspect", aspects[a].Name).Err(result.Uncalibrated).Msg("calibration failed; the scores are not calibrated")
		}
		if result.FittedOn == nil {
			continue
		}
		if compliant, violating := gate.MeanRewards(result.LogOdds()); compliant-violating < gate.MinSeparation {
			log.Warn().Str("aspect", aspects[a].Name).Float64("compliant", compliant).Float64("violations", violating).
				Msg("the rewards of compliant responses and of violations hardly differ: train for more epochs or at another --lr, or use --loss cross-entropy")
		}
	}
	written, err := c.write(base, learner, aspects, results, digest, options)
	if err != nil {
		return err
	}
	for _, a := range written.AspectList() {
		log.Info().Str("out", c.Out).Str("aspect", a.Name).Float64("threshold", a.Threshold).Float64("length_slope", a.LengthSlope).Msg("checkpoint written")
	}
	return os.RemoveAll(state)
}

// aspects returns the aspects of the trained model, and the aspect of base that each starts from.
func (c *Train) aspects(base *checkpoint.Checkpoint) ([]encoder.AspectInit, error) {
	had := base.Manifest.AspectList()
	weights := map[string]float64{}
	for _, a := range had {
		weights[a.Name] = a.Weight
	}
	var out []encoder.AspectInit
	if len(c.Aspects) == 0 {
		for _, a := range had {
			out = append(out, encoder.AspectInit{Name: a.Name})
		}
		return out, nil
	}
	if len(c.Aspects) > rewardmodel.MaxAspects {
		return nil, fmt.Errorf("there are %d; a model has at most %d", len(c.Aspects), rewardmodel.MaxAspects)
	}
	counted := false
	for i, name := range c.Aspects {
		if err := rewardmodel.CheckAspect(name); err != nil {
			return nil, err
		}
		weight, known := weights[name]
		counted = counted || weight > 0 || !known
		if slices.Contains(c.Aspects[:i], name) {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		out = append(out, encoder.AspectInit{Name: name})
	}
	if !counted {
		return nil, errors.New("each of them has weight 0 in --init; give one of them a positive weight in its assay.json, or add another")
	}
	if base.HasClassifier() && len(had) == 1 && had[0].Name == rewardmodel.DefaultAspect && !slices.Contains(c.Aspects, rewardmodel.DefaultAspect) {
		out[0].From = rewardmodel.DefaultAspect
	}
	return out, nil
}

// startsTrained reports whether base has what an aspect starts from.
func startsTrained(base *checkpoint.Checkpoint, a encoder.AspectInit) bool {
	from := cmp.Or(a.From, a.Name)
	return base.HasClassifier() && slices.ContainsFunc(base.Manifest.AspectList(), func(had checkpoint.Aspect) bool { return had.Name == from })
}

// thresholdFor is the kind of threshold of a model that is trained from base. With auto it corrects for the length if that
// of base does: otherwise the training runs of a service would drop the correction.
func (c *Train) thresholdFor(base *checkpoint.Checkpoint, m train.Method) train.Threshold {
	corrected := func(a checkpoint.Aspect) bool { return a.LengthSlope > 0 }
	if c.Threshold == localmodel.AutoThreshold && slices.ContainsFunc(base.Manifest.AspectList(), corrected) {
		return train.FalseAlarms
	}
	return c.ThresholdOf(m)
}

// falseAlarms is the share of the compliant responses that each aspect may flag. A response violates if it violates any
// aspect that counts, so these divide the share among them.
func (c *Train) falseAlarms(aspects []checkpoint.Aspect) float64 {
	counted := 0
	for _, a := range aspects {
		if a.Weight > 0 {
			counted++
		}
	}
	return c.FalseAlarms / float64(max(counted, 1))
}

// contextTokens is what the trained model reads of a prompt; 0: nothing.
func (c *Train) contextTokens(base *checkpoint.Checkpoint) (int, error) {
	limit := base.Config.Positions()
	switch {
	case c.ContextTokens != 0 && (c.ContextTokens < 3 || c.ContextTokens > limit):
		return 0, fmt.Errorf("--context-tokens is %d; the model takes 3 to %d, or give 0", c.ContextTokens, limit)
	case !c.Context && !base.Manifest.Context:
		return 0, nil
	}
	return min(cmp.Or(c.ContextTokens, base.MaxContext(), checkpoint.DefaultContextTokens), limit), nil
}

func (c *Train) hideContext(o localmodel.BagOptions) float64 {
	if o.ContextTokens == 0 {
		return 0
	}
	return c.ContextDropout
}

func (c *Train) learnerOptions(aspects []encoder.AspectInit, context bool) encoder.LearnerOptions {
	opts := encoder.LearnerOptions{
		Aspects: aspects, Context: context,
		Precision: encoder.Precision(c.Precision), Seed: c.Seed, WeightDecay: c.WeightDecay, MaxTokens: c.MaxTokens,
		Embeddings: encoder.EmbeddingRows(c.Embeddings),
	}
	if c.Dropout >= 0 {
		opts.Dropout = &c.Dropout
	}
	return opts
}
