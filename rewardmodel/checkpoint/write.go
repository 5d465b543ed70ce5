package checkpoint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/durable"
)

// tokenizerNames are the files of a tokenizer in a Hugging Face directory.
var tokenizerNames = []string{
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
	"added_tokens.json", "vocab.json", "merges.txt", "vocab.txt", "spm.model",
}

// TokenizerFiles returns the paths of the tokenizer files in a directory, as
// Write copies them. A link that leads outside the directory is an error.
func TokenizerFiles(dir string) ([]string, error) {
	f, err := openDirectory(dir)
	if err != nil {
		return nil, err
	}
	defer f.close()
	var paths []string
	for _, name := range tokenizerNames {
		if !f.has(name) {
			continue
		}
		file, _, err := f.open(name)
		if err != nil {
			return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
		}
		file.Close()
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths, nil
}

// Write writes a checkpoint directory that transformers loads as a sequence
// classifier, with the weights and copies of files (see TokenizerFiles).
//
// tensors are those of Specs(cfg, true) in any order, each once; a missing or
// unknown name, another shape, a wrong number of bytes or a non-finite value is an
// error. cfg is that of Open, or was built by the caller; its Labels define the
// rows of the head, which is stored with the violation first, and in the order of
// the manifest's aspects. Fields of config.json that Config does not define are kept. man must have a version; Write
// sets its checksums, and its creation time when zero.
//
// The directory appears complete or not at all, even when the process is killed:
// it is built next to dir, synced to disk, validated by opening it and then
// renamed. An existing checkpoint directory is replaced with every file in it; a
// directory with other contents is an error.
func Write(dir string, cfg Config, man Manifest, tensors []Tensor, files ...string) error {
	err := replaceDir(dir, func(tmp string) error {
		return fillDirectory(tmp, cfg, man, tensors, files)
	})
	if err != nil {
		return fmt.Errorf("write checkpoint %s: %w", dir, err)
	}
	return nil
}

// fillDirectory writes all files of a checkpoint into an empty directory.
func fillDirectory(tmp string, cfg Config, man Manifest, tensors []Tensor, files []string) error {
	man.nameAspects(cfg)
	man.mirrorFirst()
	out, rows, err := cfg.forWriting(man.Aspects)
	if err != nil {
		return err
	}
	if man.Version == "" {
		return fmt.Errorf("%s: version is empty; name the model", manifestFile)
	}
	if err := man.validate(out); err != nil {
		return err
	}
	tensors, err = complete(out, tensors)
	if err != nil {
		return err
	}
	if rows != nil {
		permuteRows(tensors, out.headName(), rows)
	}
	config, err := out.marshal(mainType(tensors), out.quantizationOf(tensors))
	if err != nil {
		return err
	}

	sums := map[string]string{}
	write := func(name string, body func(io.Writer) error) error {
		if _, twice := sums[name]; twice || name == manifestFile {
			return fmt.Errorf("%s would be written twice", name)
		}
		sum, err := writeFile(filepath.Join(tmp, name), body)
		sums[name] = sum
		return err
	}
	if err := write("config.json", func(w io.Writer) error { _, err := w.Write(config); return err }); err != nil {
		return err
	}
	if err := write(weightsFile, func(w io.Writer) error { return writeTensors(w, out, tensors) }); err != nil {
		return fmt.Errorf("%s: %w", weightsFile, err)
	}
	for _, path := range files {
		if err := write(filepath.Base(path), func(w io.Writer) error { return copyFile(w, path) }); err != nil {
			return err
		}
	}
	man.SHA256 = sums
	if man.Created.IsZero() {
		man.Created = time.Now().UTC().Truncate(time.Second)
	}
	manifest, err := marshalFile(man)
	if err != nil {
		return err
	}
	if _, err := writeFile(filepath.Join(tmp, manifestFile), func(w io.Writer) error { _, err := w.Write(manifest); return err }); err != nil {
		return err
	}
	check, err := open(tmp)
	if err != nil {
		return err
	}
	return check.Close()
}

// complete validates tensors against the requirements of cfg and sorts them in
// file order: as in the reference implementation, wide types first, then by name,
// so that every tensor is aligned to its type.
func complete(cfg Config, tensors []Tensor) ([]Tensor, error) {
	shapes := map[string][]int{}
	for _, spec := range Specs(cfg, true) {
		shapes[spec.Name] = spec.Shape
	}
	for _, t := range tensors {
		shape, ok := shapes[t.Name]
		if !ok {
			return nil, fmt.Errorf("tensor %q is given twice or does not belong to %s", t.Name, cfg.Architecture)
		}
		if !slices.Equal(t.Shape, shape) {
			return nil, fmt.Errorf("tensor %q has shape %v, but the configuration implies %v", t.Name, t.Shape, shape)
		}
		switch {
		case t.DType == I8 && !Quantizable(TensorSpec{t.Name, t.Shape}):
			return nil, fmt.Errorf("tensor %q is I8, which only the matrices of layers may be: %w", t.Name, ErrUnsupported)
		case t.DType == I8 && len(t.Scales) != t.Shape[0]:
			return nil, fmt.Errorf("tensor %q has %d scales for its %d rows", t.Name, len(t.Scales), t.Shape[0])
		case !t.DType.weight():
			return nil, fmt.Errorf("tensor %q is %s; weights must be F32, F16, BF16 or I8: %w", t.Name, t.DType, ErrUnsupported)
		}
		delete(shapes, t.Name)
	}
	if len(shapes) > 0 {
		return nil, fmt.Errorf("tensor %q is missing, which %s needs", sortedKeys(shapes)[0], cfg.Architecture)
	}
	return slices.SortedFunc(slices.Values(withScales(tensors)), func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(b.DType.Size(), a.DType.Size()), cmp.Compare(a.Name, b.Name))
	}), nil
}

// mainType is the most common float type of the weights.
func mainType(tensors []Tensor) DType {
	count := map[DType]int64{}
	for _, t := range tensors {
		if t.DType.Float() {
			count[t.DType] += t.bytes()
		}
	}
	return slices.MaxFunc(slices.Sorted(maps.Keys(count)), func(a, b DType) int { return cmp.Compare(count[a], count[b]) })
}

// permuteRows reorders the rows of the head's weight and bias: row i becomes what
// row rows[i] was.
func permuteRows(tensors []Tensor, head string, rows []int) {
	for i, t := range tensors {
		if t.Name != head+".weight" && t.Name != head+".bias" {
			continue
		}
		inOrder := t.WriteTo
		tensors[i].WriteTo = func(w io.Writer) error {
			var buffer bytes.Buffer
			if err := inOrder(&buffer); err != nil {
				return err
			}
			data := buffer.Bytes()
			size := len(data) / len(rows)
			permuted := make([]byte, 0, len(data))
			for _, row := range rows {
				permuted = append(permuted, data[row*size:(row+1)*size]...)
			}
			_, err := w.Write(permuted)
			return err
		}
	}
}

// headerOut is an entry of a safetensors header to write.
type headerOut struct {
	DType   DType    `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// writeTensors writes a safetensors file.
func writeTensors(w io.Writer, cfg Config, tensors []Tensor) error {
	prefix := architectures[cfg.Architecture].prefix
	entries := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var at int64
	for _, t := range tensors {
		entries[cfg.storedName(prefix, t.Name)] = headerOut{t.DType, t.Shape, [2]int64{at, at + t.bytes()}}
		at += t.bytes()
	}
	header, err := marshalHeader(entries)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return err
	}
	for _, t := range tensors {
		checked := &tensorWriter{out: w, tensor: t, left: t.bytes()}
		if err := t.WriteTo(checked); err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if checked.left != 0 {
			return fmt.Errorf("tensor %q: %d bytes are missing", t.Name, checked.left)
		}
	}
	return nil
}

// writeFile creates a file, syncs it to disk and returns its SHA-256.
func writeFile(path string, body func(io.Writer) error) (sum string, err error) {
	digest := sha256.New()
	err = durable.CreateFile(path, 0o644, func(w io.Writer) error { return body(io.MultiWriter(w, digest)) })
	return hex.EncodeToString(digest.Sum(nil)), err
}

func copyFile(w io.Writer, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = io.Copy(w, file)
	return err
}
