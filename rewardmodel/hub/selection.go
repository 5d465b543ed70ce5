package hub

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

// The names of the configuration and the weights in a checkpoint directory.
const (
	configFile  = "config.json"
	weightsFile = "model.safetensors"
	indexFile   = "model.safetensors.index.json"
)

// otherFiles are the files that are pulled in addition to the weights if the
// repository has them: configuration, tokenizer, the files of assay, and the model
// card, which contains the license.
func otherFiles() []string {
	return []string{
		configFile, "assay.json",
		"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
		"vocab.json", "merges.txt", "vocab.txt",
		"spm.model", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model",
		"README.md", "LICENSE", "LICENSE.md", "LICENSE.txt", "NOTICE", "NOTICE.md", "NOTICE.txt",
	}
}

// isData reports whether a file is of a kind that contains only data, so that a
// reader cannot be made to execute it.
func isData(name string) bool {
	return slices.Contains([]string{"", ".json", ".jsonl", ".txt", ".md", ".model", ".safetensors", ".yaml", ".yml"}, path.Ext(name))
}

// checkInclude rejects patterns that cannot match a file that may be pulled.
func checkInclude(patterns []string) error {
	for _, p := range patterns {
		if _, err := path.Match(p, ""); err != nil || p == "" || strings.ContainsAny(p, "/\\") {
			return fmt.Errorf("include %q is not a pattern for a file name, such as *.json: %w", p, ErrInvalid)
		}
		if !strings.ContainsAny(path.Ext(p), "*?[") && !isData(p) {
			return fmt.Errorf("include %q: only data files are pulled (.json, .txt, .md, .model, .safetensors, .yaml), never pickles or code: %w", p, ErrInvalid)
		}
	}
	return nil
}

// choose selects the files to pull, in the order of the pull, the weights last.
// shards is the parsed index of a repository without a single weights file.
func choose(files map[string]File, include, shards []string) ([]File, error) {
	names := map[string]bool{}
	for _, name := range otherFiles() {
		names[name] = true
	}
	for name := range files {
		for _, pattern := range include {
			if ok, _ := path.Match(pattern, name); ok && isData(name) && name != ReceiptFile { // that of another pull
				names[name] = true
			}
		}
	}
	weights := []string{weightsFile}
	if _, single := files[weightsFile]; !single {
		weights = append([]string{indexFile}, shards...)
	}
	var chosen []File
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if f, ok := files[name]; ok && !slices.Contains(weights, name) {
			chosen = append(chosen, f)
		}
	}
	for _, name := range weights {
		f, ok := files[name]
		if !ok {
			return nil, fmt.Errorf("%s names %q, which the repository does not contain: %w", indexFile, name, ErrUnsuitable)
		}
		chosen = append(chosen, f)
	}
	return chosen, nil
}

// pickles lists the weights of a repository that are not safetensors.
func pickles(files map[string]File) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch path.Ext(name) {
		case ".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".gguf":
			found = append(found, name)
		}
	}
	return found
}

// parseIndex returns the names of the shards, sorted.
func parseIndex(data []byte) ([]string, error) {
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", indexFile, err, ErrUnsuitable)
	}
	shards := slices.Compact(slices.Sorted(maps.Values(index.WeightMap)))
	if len(shards) == 0 {
		return nil, fmt.Errorf("%s names no shard: %w", indexFile, ErrUnsuitable)
	}
	for _, name := range shards {
		if err := checkPath(name); err != nil {
			return nil, fmt.Errorf("%s: %w", indexFile, err)
		}
		if strings.Contains(name, "/") || path.Ext(name) != ".safetensors" {
			return nil, fmt.Errorf("%s names %.200q, which is not a safetensors file at the top level of the repository: %w", indexFile, name, ErrUnsuitable)
		}
	}
	return shards, nil
}
