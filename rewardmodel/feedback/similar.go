package feedback

import (
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"unicode"

	"assay/rewardmodel/bag"
)

const (
	vectorSize  = 256     // dimension of a vector
	frequencies = 1 << 16 // buckets of the feature counts
	vectorWords = 512     // words of a text that are read
)

// vectors are unit vectors of texts: tf-idf of words and pairs of words, by signed
// feature hashing (Weinberger et al. 2009).
type vectors [][vectorSize]float32

func newVectors(texts []string) vectors {
	features := make([][]uint64, len(texts))
	in := make([]int32, frequencies) // document frequency by feature
	for i, t := range texts {
		features[i] = featuresOf(t)
		for j, f := range features[i] {
			if j == 0 || f != features[i][j-1] {
				in[f%frequencies]++
			}
		}
	}
	out := make(vectors, len(texts))
	for i, all := range features {
		v := &out[i]
		for from := 0; from < len(all); {
			to := from + 1
			for to < len(all) && all[to] == all[from] {
				to++
			}
			f := all[from]
			weight := (1 + math.Log(float64(to-from))) * math.Log(float64(1+len(texts))/float64(in[f%frequencies]))
			if f>>63 == 1 {
				weight = -weight
			}
			v[f>>32%vectorSize] += float32(weight)
			from = to
		}
		length := float32(0)
		for _, x := range v {
			length += x * x
		}
		if length > 0 {
			scale := float32(1 / math.Sqrt(float64(length)))
			for k := range v {
				v[k] *= scale
			}
		}
	}
	return out
}

// cosine is the cosine similarity of two texts, 0 if they have nothing in common.
func (v vectors) cosine(i, j int) float64 {
	a, b := &v[i], &v[j]
	var sum float32
	for k := range a {
		sum += a[k] * b[k]
	}
	return float64(min(max(sum, 0), 1))
}

// featuresOf returns the hashes of the words and pairs of words of a text, sorted.
func featuresOf(text string) []uint64 {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	words = words[:min(len(words), vectorWords)]
	out := make([]uint64, 0, 2*len(words))
	hash := fnv.New64a()
	for i, word := range words {
		hash.Reset()
		hash.Write([]byte(word))
		out = append(out, mix(hash.Sum64()))
		if i+1 < len(words) {
			hash.Write([]byte{0})
			hash.Write([]byte(words[i+1]))
			out = append(out, mix(hash.Sum64()))
		}
	}
	slices.Sort(out)
	return out
}

// mix spreads a hash over all bits (the finaliser of SplitMix64), which FNV
// does not do for short words.
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// scoredText is the text of a bag that is scored.
func scoredText(b bag.Bag) string { return strings.Join(b.Texts(), "\n") }
