package flags

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"assay/lab/bench"
	"assay/rewardmodel/bag"
	"assay/sidecar/cli"
)

// Work names the file with the texts to score.
type Work struct {
	File string `name:"work" placeholder:"FILE" help:"Texts to score, JSONL with the field text, gzipped or not. Default: imdb/test.jsonl.gz in the directory $$ASSAY_DATA, else in ../shared/data."`
}

// Sample samples at most n texts, always the same.
func (f Work) Sample(ctx context.Context, n int) ([]string, error) {
	path := f.File
	if path == "" {
		data := os.Getenv("ASSAY_DATA")
		if data == "" {
			data = filepath.Join("..", "shared", "data")
		}
		path = filepath.Join(data, "imdb", "test.jsonl.gz")
	}
	texts, err := bench.Sample(ctx, path, n, 1)
	if err != nil {
		return nil, cli.Usage(fmt.Errorf("--work: %w", err))
	}
	return texts, nil
}

// Bags reads the bag files of a flag. It makes the ids of bags of different files distinct.
func Bags(flag string, files []string) (bags []bag.Bag, err error) {
	for i, name := range files {
		f, err := os.Open(name)
		if err != nil {
			return nil, cli.Usage(fmt.Errorf("%s: %w", flag, err))
		}
		defer f.Close()
		for b, err := range bag.Read(f) {
			if err != nil {
				return nil, cli.Usage(fmt.Errorf("%s: %s: %w", flag, name, err))
			}
			b.ID = fmt.Sprintf("%d/%s", i, b.ID)
			bags = append(bags, b)
		}
	}
	return bags, nil
}
