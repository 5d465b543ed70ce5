package paper

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/bag/synthetic"
)

// FilesPrefix begins a data set of ready-made bags: "files:NAME" are the files NAME/sigma<N>/{train,test}.<seed>.jsonl
// in the directory of the data sets, as assay bags writes them.
const FilesPrefix = "files:"

// MakeBags samples the bags of a run from the data sets in dir. The error wraps fs.ErrNotExist when they are not there.
func (s Spec) MakeBags(dir string) (training, test []bag.Bag, err error) {
	if name, ok := strings.CutPrefix(s.Dataset, FilesPrefix); ok {
		at := filepath.Join(dir, name, fmt.Sprintf("sigma%d", s.SigmaMicro))
		if training, err = readBags(filepath.Join(at, fmt.Sprintf("train.%d.jsonl", s.Seed))); err != nil {
			return nil, nil, err
		}
		test, err = readBags(filepath.Join(at, fmt.Sprintf("test.%d.jsonl", s.Seed)))
		return training, test, err
	}
	name := map[string]string{SST2Max: SST2, IMDBSentences: IMDB}[s.Dataset]
	if name == "" {
		name = s.Dataset
	}
	sentences, err := synthetic.Load(name, dir)
	if err != nil {
		return nil, nil, err
	}
	if s.Dataset == IMDBSentences {
		return synthetic.Reviews{MaxBags: s.Bags, MaxTestBags: maxTestBags, Seed: s.Seed}.Make(sentences)
	}
	p := synthetic.Protocol{
		SigmaMicro: s.SigmaMicro, SigmaMacro: s.SigmaMacro, SigmaMax: sentences.SigmaMax,
		MaxBags: s.Bags, MaxTestBags: maxTestBags, Seed: s.Seed,
	}
	if s.Dataset == SST2Max || s.Bags > 0 && s.Dataset != SST2 {
		p.SigmaMax = 0 // as many as the sentences allow
	}
	return p.Make(sentences)
}

// maxTestBags bounds the test bags of each label: more would hardly narrow the intervals and would cost more than training.
const maxTestBags = 1000

func readBags(file string) ([]bag.Bag, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var bags []bag.Bag
	for b, err := range bag.Read(bufio.NewReader(f)) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		bags = append(bags, b)
	}
	return bags, nil
}
