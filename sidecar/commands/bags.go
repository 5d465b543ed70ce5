package commands

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"assay/internal/durable"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/bag/synthetic"
	"assay/sidecar/cli"
)

// Bags makes bags of labeled sentences for training and evaluation.
type Bags struct {
	Dataset   string `placeholder:"NAME" help:"Data set: sst2, sentiment140, imdb or amazon sample sentences (or whole reviews) into synthetic bags; imdb-sentences or amazon-sentences make each review a bag of its sentences."`
	Data      string `default:"../shared/data" placeholder:"DIR" help:"Directory of the data sets, one subdirectory each (${default})."`
	Normal    string `placeholder:"FILE" help:"File of compliant sentences, one per line, instead of --dataset; a fifth is held out for the test bags."`
	Anomalous string `placeholder:"FILE" help:"File of violating sentences, one per line; required with --normal."`

	SigmaMicro []int    `default:"2" placeholder:"N" help:"Compliant sentences per violating sentence in a bag; a list makes one set of bags for each number (${default})."`
	SigmaMacro int      `default:"1" help:"Compliant training bags per violating one; test bags are balanced."`
	Bags       string   `default:"paper" placeholder:"N" help:"Violating training bags: paper (for every sigma-micro as many as the largest one allows), max (as many as the sentences allow) or a number (${default}). For real bags: all, or that many per label."`
	TestBags   int      `default:"0" help:"Maximum test bags per label; 0: as many as the sentences allow."`
	Seed       []uint64 `default:"0,1,2" placeholder:"N" help:"Seeds of the sampling; each makes its own files (${default})."`
	Out        string   `required:"" placeholder:"DIR" help:"Output directory."`
}

// Help is shown by --help.
func (*Bags) Help() string {
	return `Example:

    assay bags --dataset sst2 --sigma-micro 2,4,6,8,10 --out bags
    assay train --bags bags/sigma2/train.0.jsonl --init BASE --out models/sst2
    assay eval --bags bags/sigma2/test.0.jsonl --model models/sst2

Makes the synthetic bags of the BFGPU paper: DIR/sigma<N>/train.<seed>.jsonl and test.<seed>.jsonl, or
DIR/train.<seed>.jsonl and so on for real ones, and prints one JSON object per file. The sampled violating
sentence of a bag is its "witness", which training does not read. The same seed gives the same files.`
}

// The values of --bags that are not numbers.
const (
	bagsPaper = "paper"
	bagsMax   = "max"
)

// maker makes bags from sentences.
type maker interface {
	Make(synthetic.Sentences) (train, test []bag.Bag, err error)
}

// Run is called by kong.
func (c *Bags) Run(a *cli.App) error {
	number := 0
	if c.Bags != bagsPaper && c.Bags != bagsMax {
		var err error
		if number, err = strconv.Atoi(c.Bags); err != nil || number < 1 {
			return cli.Usage(fmt.Errorf("--bags is %q; give paper, max or an integer of at least 1", c.Bags))
		}
	}
	if len(c.SigmaMicro) == 0 || len(c.Seed) == 0 {
		return cli.Usage(errors.New("--sigma-micro and --seed need at least one number each"))
	}
	sentences, whole, err := c.sentences()
	if err != nil {
		return err
	}
	for _, seed := range c.Seed {
		if whole {
			how := synthetic.Reviews{MaxBags: number, MaxTestBags: c.TestBags, Seed: seed}
			if err := c.make(a, how, sentences, seed, c.Out, number); err != nil {
				return err
			}
			continue
		}
		for _, micro := range c.SigmaMicro {
			how := synthetic.Protocol{
				SigmaMicro: micro, SigmaMacro: c.SigmaMacro, MaxBags: number, MaxTestBags: c.TestBags, Seed: seed,
			}
			if c.Bags == bagsPaper {
				how.SigmaMax = sentences.SigmaMax
			}
			dir := filepath.Join(c.Out, fmt.Sprintf("sigma%d", micro))
			if err := c.make(a, how, sentences, seed, dir, number); err != nil {
				return err
			}
		}
	}
	return nil
}

// sentences reads the sentences to make bags from; whole reports that each text is
// one bag.
func (c *Bags) sentences() (s synthetic.Sentences, whole bool, err error) {
	if custom := c.Normal != "" || c.Anomalous != ""; custom == (c.Dataset != "") || (c.Normal == "") != (c.Anomalous == "") {
		return s, false, cli.Usage(errors.New("give either --dataset, or --normal and --anomalous"))
	}
	if c.Dataset != "" {
		name, whole := strings.CutSuffix(c.Dataset, "-sentences")
		if whole && name != synthetic.IMDB && name != synthetic.Amazon {
			return s, false, cli.Usage(fmt.Errorf("--dataset is %q; only imdb and amazon hold texts of several sentences", c.Dataset))
		}
		if s, err = synthetic.Load(name, c.Data); err != nil {
			return s, false, cli.Usage(fmt.Errorf("--dataset: %w", err))
		}
		return s, whole, nil
	}
	var texts [2][]string
	for i, flag := range []struct{ name, file string }{{"--normal", c.Normal}, {"--anomalous", c.Anomalous}} {
		if texts[i], err = readSentences(flag.file); err != nil {
			return s, false, cli.Usage(fmt.Errorf("%s: %w", flag.name, err))
		}
	}
	s = synthetic.Pair(texts[0], texts[1])
	s.SigmaMax = slices.Max(c.SigmaMicro)
	return s, false, nil
}

func readSentences(name string) ([]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	texts, err := synthetic.ReadLines(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return texts, nil
}

// make writes the training and the test file of one seed. The training file has
// number violations unless number is 0.
func (c *Bags) make(a *cli.App, how maker, s synthetic.Sentences, seed uint64, dir string, number int) error {
	train, test, err := how.Make(s)
	if err != nil {
		return cli.Usage(err)
	}
	if got := newBagCounts(train).Violations; number > 0 && got < number {
		return cli.Usage(fmt.Errorf("--bags is %d, but the sentences allow only %d; give at most that, or max", number, got))
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for _, split := range []struct {
		name string
		bags []bag.Bag
	}{{"train", train}, {"test", test}} {
		file := filepath.Join(dir, fmt.Sprintf("%s.%d.jsonl", split.name, seed))
		if err := writeBags(file, split.bags); err != nil {
			return err
		}
		counts := newBagCounts(split.bags)
		counts.File = file
		line, err := json.Marshal(counts)
		if err != nil {
			return err
		}
		if _, err := a.Stdout.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// writeBags writes a file atomically.
func writeBags(name string, bags []bag.Bag) error {
	return durable.WriteTo(name, 0o644, func(w io.Writer) error { return bag.Write(w, slices.Values(bags)) })
}

// bagCounts counts the bags of a file. Instances counts those that bags list;
// a whole response is segmented only when the file is read.
type bagCounts struct {
	File       string `json:"file"`
	Violations int    `json:"violations"`
	Compliant  int    `json:"compliant"`
	Instances  int    `json:"instances,omitzero"`
}

func newBagCounts(bags []bag.Bag) bagCounts {
	var n bagCounts
	for _, b := range bags {
		if b.Label == bag.Violation {
			n.Violations++
		} else {
			n.Compliant++
		}
		n.Instances += len(b.Instances)
	}
	return n
}
