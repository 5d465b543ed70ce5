package processtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/checkpoint"
)

// InventedWords are in the vocabulary of tinyBackbone. A sentence with one of the first badWords is a violation.
const (
	InventedWords = 46
	badWords      = 6
)

// Invented is a made-up word; all of them begin with different letters.
func Invented(i int) string {
	const consonants, vowels = "bdfgklmnprstvz", "aeiou"
	return string([]byte{consonants[i%14], vowels[i%5], 'r', vowels[i/7%5]})
}

// WordBags are responses of three sentences, every other one with three bad words in one of them.
func WordBags(prefix string, n int, seed uint64) []bag.Bag {
	rng := rand.New(rand.NewPCG(seed, 3))
	bags := make([]bag.Bag, n)
	for i := range bags {
		var sentences [3][5]string
		for s := range sentences {
			for w := range sentences[s] {
				sentences[s][w] = Invented(badWords + rng.IntN(InventedWords-badWords))
			}
		}
		b := bag.Bag{ID: fmt.Sprint(prefix, i), Label: bag.Compliant}
		if i%2 == 1 {
			b.Label = bag.Violation
			witness := &sentences[rng.IntN(3)]
			for _, w := range rng.Perm(5)[:3] {
				witness[w] = Invented(rng.IntN(badWords))
			}
		}
		for _, s := range sentences {
			b.Response += strings.Join(s[:], " ") + ". "
		}
		bags[i] = b
	}
	return bags
}

// TinyBackbone writes a base model with random weights and without a classifier. It can learn which words are bad.
func TinyBackbone(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "backbone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	vocabulary := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "."}
	for i := range InventedWords {
		vocabulary = append(vocabulary, Invented(i))
	}
	config := fmt.Sprintf(`{"model_type":"bert","architectures":["BertModel"],"hidden_size":32,"num_hidden_layers":2,
		"num_attention_heads":4,"intermediate_size":64,"vocab_size":%d,"max_position_embeddings":32,"type_vocab_size":2,
		"layer_norm_eps":1e-12,"hidden_act":"gelu","pad_token_id":0,"hidden_dropout_prob":0,"attention_probs_dropout_prob":0}`,
		len(vocabulary))
	cfg := checkpoint.Config{
		ModelType: checkpoint.Bert, HiddenSize: 32, Layers: 2, Heads: 4, Intermediate: 64, Vocab: len(vocabulary),
		MaxPositions: 32, TypeVocab: 2,
	}
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	header, data := map[string]entry{}, []byte(nil)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, spec := range checkpoint.Specs(cfg, false) {
		n, from := 1, len(data)
		for _, d := range spec.Shape {
			n *= d
		}
		scale := 0.1
		if strings.HasPrefix(spec.Name, "embeddings.position") || strings.HasPrefix(spec.Name, "embeddings.token_type") {
			scale = 0.01 // the words dominate
		}
		for range n {
			value := scale * rng.NormFloat64()
			if strings.HasSuffix(spec.Name, "LayerNorm.weight") {
				value = 1
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(value)))
		}
		header[spec.Name] = entry{"F32", spec.Shape, [2]int{from, len(data)}}
	}
	head, err := json.Marshal(header, json.Deterministic(true))
	require.NoError(t, err)
	weights := slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head, data)
	for name, content := range map[string]string{
		"config.json": config, "vocab.txt": strings.Join(vocabulary, "\n") + "\n", "model.safetensors": string(weights),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	return dir
}
