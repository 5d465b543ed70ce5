package synthetic

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// The data sets of Load, each a directory of public files. Positive
// sentiment is normal, negative is anomalous.
const (
	// SST2 is the binary Stanford Sentiment Treebank (Socher et al. 2013) in its
	// own splits: sst2_stsa/stsa.binary.{train,test}, a label and a text per line.
	SST2 = "sst2"
	// Sentiment140 is tweets labeled by their smileys (Go et al. 2009):
	// sentiment140/{positive,negative}.txt, one per line, including the spam that
	// the authors did not remove. They train on the first 50,000 of each label and test on
	// the next ones, which the files lack, so a fifth is held out here.
	Sentiment140 = "sentiment140"
	// IMDB is whole reviews (Maas et al. 2011) in their own splits, with unchanged
	// text: imdb/{train,test}.jsonl.gz with "text" and "label" (1 positive).
	IMDB = "imdb"
	// Amazon is product reviews of four domains (Blitzer et al. 2007), where the
	// paper uses Amazon polarity: amazon_blitzer/DOMAIN.{positive,negative}.review.
	// A fifth is held out.
	Amazon = "amazon"
)

// Load reads a data set (SST2, ...) from the parent of its directory. The
// error wraps fs.ErrNotExist for missing data, and names the file, ErrFormat for damaged
// data, and ErrUnknown for an unknown data set.
func Load(dataset, dir string) (Sentences, error) {
	s, err := load(dataset, os.DirFS(dir))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w in %s; point $ASSAY_DATA at the directory that contains the data sets", err, dir)
	}
	if err != nil {
		return Sentences{}, fmt.Errorf("data set %q: %w", dataset, err)
	}
	return s, nil
}

func load(dataset string, files fs.FS) (Sentences, error) {
	switch dataset {
	case SST2:
		return loadSplits(files, 10, "sst2_stsa/stsa.binary.train", "sst2_stsa/stsa.binary.test", readSST)
	case IMDB:
		return loadSplits(files, 5, "imdb/train.jsonl.gz", "imdb/test.jsonl.gz", readReviews)
	case Sentiment140:
		return loadPair(files, 10, []string{"sentiment140/positive.txt"}, []string{"sentiment140/negative.txt"}, ReadLines)
	case Amazon:
		var positive, negative []string
		for _, domain := range []string{"books", "dvd", "electronics", "kitchen"} {
			positive = append(positive, path.Join("amazon_blitzer", domain+".positive.review"))
			negative = append(negative, path.Join("amazon_blitzer", domain+".negative.review"))
		}
		return loadPair(files, 5, positive, negative, readBlitzer)
	}
	return Sentences{}, fmt.Errorf("%w; use %s", ErrUnknown, strings.Join([]string{SST2, Sentiment140, IMDB, Amazon}, ", "))
}

// loadSplits reads a data set with two splits.
func loadSplits(files fs.FS, sigmaMax int, train, test string, read func(io.Reader) (Split, error)) (Sentences, error) {
	s := Sentences{SigmaMax: sigmaMax}
	split := func(into *Split) func(io.Reader) error {
		return func(r io.Reader) (err error) {
			*into, err = read(r)
			return err
		}
	}
	if err := readFile(files, train, split(&s.Train)); err != nil {
		return Sentences{}, err
	}
	if err := readFile(files, test, split(&s.Test)); err != nil {
		return Sentences{}, err
	}
	return s, nil
}

// loadPair reads a data set with one file per kind, and splits it.
func loadPair(files fs.FS, sigmaMax int, normal, anomalous []string, read func(io.Reader) ([]string, error)) (Sentences, error) {
	var all Split
	collect := func(into *[]string, names []string) error {
		for _, name := range names {
			if err := readFile(files, name, func(r io.Reader) error {
				texts, err := read(r)
				*into = append(*into, texts...)
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	}
	if err := collect(&all.Normal, normal); err != nil {
		return Sentences{}, err
	}
	if err := collect(&all.Anomalous, anomalous); err != nil {
		return Sentences{}, err
	}
	s := divide(all)
	s.SigmaMax = sigmaMax
	return s, nil
}

// readFile calls read with a file, decompressed if its name ends in .gz.
func readFile(files fs.FS, name string, read func(io.Reader) error) error {
	file, err := files.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	var r io.Reader = file
	if path.Ext(name) == ".gz" {
		if r, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
		}
	}
	if err := read(r); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return nil
}
