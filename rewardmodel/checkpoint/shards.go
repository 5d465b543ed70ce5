package checkpoint

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// The names of the weights in a Hugging Face directory.
const (
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

const (
	maxIndex  = 16 << 20
	maxShards = 1000 // each is an open file
)

// shard is an open safetensors file.
type shard struct {
	file *os.File
	name string
}

// located is a tensor and the file that holds it.
type located struct {
	stored
	shard *shard
}

// openWeights opens the weights of a directory, in one file or sharded, and reads
// their headers. The caller closes the returned shards, also after an error.
func openWeights(f *directory) ([]located, []*shard, error) {
	if f.has(weightsFile) {
		s, tensors, err := openShard(f, weightsFile)
		if err != nil {
			return nil, nil, err
		}
		return tensors, []*shard{s}, nil
	}
	if f.has(indexFile) {
		return openSharded(f)
	}
	names, err := f.names()
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(names)
	for _, name := range names {
		for _, suffix := range []string{".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack"} {
			if strings.HasSuffix(name, suffix) {
				return nil, nil, fmt.Errorf("%s cannot be read (a pickle can run code when it is loaded); convert the directory to %s with transformers' save_pretrained: %w", name, weightsFile, ErrUnsupported)
			}
		}
	}
	return nil, nil, fmt.Errorf("%s: %w", weightsFile, os.ErrNotExist)
}

// openShard opens one safetensors file.
func openShard(f *directory, name string) (*shard, []located, error) {
	file, size, err := f.open(name)
	if err != nil {
		return nil, nil, err
	}
	header, err := readHeader(file, size)
	if err != nil {
		file.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &shard{file: file, name: name}
	tensors := make([]located, len(header))
	for i, t := range header {
		tensors[i] = located{stored: t, shard: s}
	}
	return s, tensors, nil
}

// openSharded follows the index: it uses only the tensors of each shard that the
// index assigns to it.
func openSharded(f *directory) ([]located, []*shard, error) {
	data, err := f.read(indexFile, maxIndex)
	if err != nil {
		return nil, nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, nil, fmt.Errorf("%s: %.200s: %w", indexFile, err.Error(), ErrDamaged)
	}
	if len(index.WeightMap) == 0 {
		return nil, nil, fmt.Errorf("%s: weight_map is missing or empty: %w", indexFile, ErrDamaged)
	}
	if len(index.WeightMap) > maxTensors {
		return nil, nil, fmt.Errorf("%s: weight_map names more than %d tensors: %w", indexFile, maxTensors, ErrDamaged)
	}
	files := map[string]bool{}
	for _, name := range index.WeightMap {
		files[name] = true
	}
	if len(files) > maxShards {
		return nil, nil, fmt.Errorf("%s: weight_map names more than %d files: %w", indexFile, maxShards, ErrDamaged)
	}

	var tensors []located
	var shards []*shard
	for _, name := range sortedKeys(files) {
		if plainName(name) && !strings.HasSuffix(name, ".safetensors") {
			return nil, shards, fmt.Errorf("%s: shard %.80q is not a safetensors file: %w", indexFile, name, ErrUnsupported)
		}
		s, held, err := openShard(f, name)
		if err != nil {
			return nil, shards, fmt.Errorf("%s: %w", indexFile, err)
		}
		shards = append(shards, s)
		for _, t := range held {
			if index.WeightMap[t.name] == name {
				tensors = append(tensors, t)
				delete(index.WeightMap, t.name)
			}
		}
	}
	if missing := sortedKeys(index.WeightMap); len(missing) > 0 {
		return nil, shards, fmt.Errorf("%s: tensor %.80q is not in %s: %w", indexFile, missing[0], index.WeightMap[missing[0]], ErrDamaged)
	}
	return tensors, shards, nil
}
