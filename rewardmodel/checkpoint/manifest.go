package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
	"assay/rewardmodel/calibration"
)

// manifestFile is the manifest's name in the directory.
const manifestFile = "assay.json"

// DefaultThreshold is the decision threshold of a checkpoint without one.
const DefaultThreshold = 0.5

// DefaultContextTokens is the maximum length of a context of a checkpoint that was
// trained with context and does not state one.
const DefaultContextTokens = 128

// Manifest is assay.json: what a reward model adds to a checkpoint.
type Manifest struct {
	// Version names this model in every result.
	Version string `json:"version"`
	// Created is when training ended.
	Created time.Time `json:"created,omitzero"`
	// Method is how it was trained, e.g. "bfgpu".
	Method string `json:"method"`
	// Threshold is the adjusted decision threshold T of the default
	// aggregate (max), in [0,1]: a response whose violation is above it
	// is not compliant.
	Threshold float64 `json:"threshold"`
	// Thresholds holds T per aggregate ("max", "topk", "noisy_or",
	// "mean"), each in [0,1].
	Thresholds map[string]float64 `json:"thresholds,omitempty"`
	// LengthSlope raises the log-odds of Threshold by LengthSlope*ln(n) for a
	// response with n scored utterances; in [0,rewardmodel.MaxLengthSlope], 0: not.
	LengthSlope float64 `json:"length_slope,omitzero"`
	// Calibration keeps the rewards comparable with those of the preceding model:
	// a map of the compliance log-odds per aggregate. An aggregate without one has
	// uncalibrated rewards.
	Calibration map[string]calibration.Map `json:"calibration,omitempty"`
	// Aspects are the rules that the checkpoint scores, if it names them; see
	// AspectList. Threshold, Thresholds, LengthSlope and Calibration are then those of the first
	// one, for readers that know one rule only: Write and UpdateManifest set them.
	Aspects []Aspect `json:"aspects,omitempty"`
	// Combination is how the rewards of the aspects become one; see
	// CombinationOrDefault.
	Combination rewardmodel.Combination `json:"combination,omitempty"`
	// SigmaMicro is the ratio of normal to anomalous instances inside an
	// anomalous bag of the training data; at least 0.
	SigmaMicro float64 `json:"sigma_micro"`
	// SigmaMacro is the ratio of normal to anomalous bags; at least 0.
	SigmaMacro float64 `json:"sigma_macro"`
	// Segmenter is the version of the rules that segmented the training data.
	Segmenter string `json:"segmenter"`
	// MaxLength is the maximum length of a sequence in tokens, including special
	// tokens; 0 means the number of positions of the model.
	MaxLength int `json:"max_length"`
	// Context reports that the model was trained with the prompt as context.
	Context bool `json:"context"`
	// ContextTokens is the maximum length of a context in tokens, including special
	// tokens; 0 means DefaultContextTokens. See Checkpoint.MaxContext.
	ContextTokens int `json:"context_tokens,omitzero"`
	// WholeCharacters is the maximum length of a text that is also read as a whole, in code points; 0: none is. See
	// rewardmodel.ScorerConfig.
	WholeCharacters int `json:"whole_characters,omitzero"`
	// NormalizeSpelling reports that the model reads texts after spelling.Normalize.
	NormalizeSpelling bool `json:"normalize_spelling,omitzero"`
	// DescribeEmoji reports that the model reads texts after spelling.DescribeEmoji, before spelling.Normalize.
	DescribeEmoji bool `json:"describe_emoji,omitzero"`
	// Base names the checkpoint that training was initialized from.
	Base string `json:"base"`
	// Data names the data sets.
	Data []string `json:"data"`
	// Metrics are metrics on held-out data.
	Metrics map[string]float64 `json:"metrics"`
	// SHA256 is the checksum of each other file of the directory, in hexadecimal.
	// Write sets it.
	SHA256 map[string]string `json:"sha256"`
	// Unknown keeps the fields that this version does not define.
	Unknown jsontext.Value `json:",embed"`
}

// readManifest reads assay.json, or returns the default for a directory without
// one.
func readManifest(f *directory, cfg Config) (*Manifest, error) {
	if !f.has(manifestFile) {
		man := &Manifest{Threshold: DefaultThreshold}
		man.nameAspects(cfg)
		return man, nil
	}
	data, err := f.read(manifestFile, maxConfig)
	if err != nil {
		return nil, err
	}
	return parseManifest(data, cfg)
}

func parseManifest(data []byte, cfg Config) (*Manifest, error) {
	man := &Manifest{Threshold: DefaultThreshold}
	if err := json.Unmarshal(data, man); err != nil {
		return nil, fmt.Errorf("%s: %.200s: %w", manifestFile, err.Error(), ErrDamaged)
	}
	man.nameAspects(cfg)
	if err := man.validate(cfg); err != nil {
		return nil, err
	}
	return man, nil
}

// validate checks ranges; cfg bounds the length.
func (m *Manifest) validate(cfg Config) error {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf(manifestFile+": "+format+": %w", append(args, ErrDamaged)...)
	}
	ratio := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	if err := checkScale("", m.own()); err != nil {
		return damaged("%w", err)
	}
	if err := m.checkAspects(cfg); err != nil {
		return damaged("%w", err)
	}
	if !ratio(m.SigmaMicro) {
		return damaged("sigma_micro is %v; it must be at least 0", m.SigmaMicro)
	}
	if !ratio(m.SigmaMacro) {
		return damaged("sigma_macro is %v; it must be at least 0", m.SigmaMacro)
	}
	if m.MaxLength != 0 && (m.MaxLength < 3 || m.MaxLength > cfg.Positions()) {
		return damaged("max_length is %d; the model takes 3 to %d tokens", m.MaxLength, cfg.Positions())
	}
	if m.ContextTokens != 0 && (m.ContextTokens < 3 || m.ContextTokens > cfg.Positions()) {
		return damaged("context_tokens is %d; the model takes 3 to %d tokens", m.ContextTokens, cfg.Positions())
	}
	if m.WholeCharacters < 0 {
		return damaged("whole_characters is %d; use 0 for none", m.WholeCharacters)
	}
	for _, name := range sortedKeys(m.Metrics) {
		if x := m.Metrics[name]; math.IsNaN(x) || math.IsInf(x, 0) {
			return damaged("metrics.%.80s is %v; it must be finite", name, x)
		}
	}
	for _, name := range sortedKeys(m.SHA256) {
		if !plainName(name) {
			return damaged("sha256: %.80q is not the name of a file in the directory", name)
		}
		if sum, err := hex.DecodeString(m.SHA256[name]); err != nil || len(sum) != sha256.Size {
			return damaged("sha256: %.80s: not a SHA-256 in hexadecimal", name)
		}
	}
	return nil
}

// VerifySHA256 reads every file that the manifest lists and compares its
// checksum, until ctx ends. A manifest that lists any file must list the
// weights; one that lists none verifies. The error names the file and wraps
// ErrDamaged, fs.ErrNotExist or that of ctx.
func (c *Checkpoint) VerifySHA256(ctx context.Context) error {
	sums := c.Manifest.SHA256
	if len(sums) == 0 {
		return nil
	}
	for _, s := range c.shards {
		if _, listed := sums[s.name]; !listed {
			return fmt.Errorf("checkpoint %s: %s: sha256 does not list %s: %w", c.Dir, manifestFile, s.name, ErrDamaged)
		}
	}
	for _, name := range sortedKeys(sums) {
		sum, err := c.directory.sum(ctx, name)
		if err != nil {
			return fmt.Errorf("checkpoint %s: %s: %w", c.Dir, name, err)
		}
		if !strings.EqualFold(sum, sums[name]) {
			return fmt.Errorf("checkpoint %s: %s: its SHA-256 is %s, but %s lists %s: %w", c.Dir, name, sum, manifestFile, sums[name], ErrDamaged)
		}
	}
	return nil
}

// Content is a checksum of every file that a model is loaded from: config.json,
// assay.json, the tokenizer and the weights. Directories with the same content
// have the same one. It reads the files, and VerifySHA256 not again.
func (c *Checkpoint) Content(ctx context.Context) ([sha256.Size]byte, error) {
	names := append([]string{"config.json", manifestFile}, tokenizerNames...)
	for _, s := range c.shards {
		names = append(names, s.name)
	}
	hash := sha256.New()
	for _, name := range names {
		if !c.directory.has(name) {
			continue
		}
		sum, err := c.directory.sum(ctx, name)
		if err != nil {
			return [sha256.Size]byte{}, fmt.Errorf("checkpoint %s: %s: %w", c.Dir, name, err)
		}
		fmt.Fprintf(hash, "%q %s\n", name, sum)
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}

// summed is a file as it was hashed.
type summed struct {
	size     int64
	modified time.Time
	sum      string
}

// sum hashes a file. It reads it again only if the file has changed, so that
// concurrent calls read it once.
func (f *directory) sum(ctx context.Context, name string) (string, error) {
	f.summing.Lock()
	defer f.summing.Unlock()
	file, _, err := f.open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	known := f.sums[name]
	if known.sum != "" && known.size == info.Size() && known.modified.Equal(info.ModTime()) {
		return known.sum, ctx.Err()
	}
	hash := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if _, err := io.CopyN(hash, file, 4<<20); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
	}
	f.sums[name] = summed{info.Size(), info.ModTime(), hex.EncodeToString(hash.Sum(nil))}
	return f.sums[name].sum, nil
}
