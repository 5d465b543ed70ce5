package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// fetchLibtorch returns the cache's folder of the pinned libtorch, which holds
// torch/include, torch/lib and the nvidia libraries where torch's own run path
// expects them. It is downloaded and unpacked when the cache lacks it.
func fetchLibtorch(ctx context.Context, cache string, p platform) (string, error) {
	dir := filepath.Join(cache, fmt.Sprintf("libtorch-%s-%s-%s", torchVersion, p.Arch, p.key()))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	wheels := filepath.Join(cache, "wheels")
	if err := os.MkdirAll(wheels, 0o755); err != nil {
		return "", err
	}
	var total int64
	for _, w := range p.Wheels {
		total += w.Bytes
	}
	// Twice: pip copies out of its temporary folder, and the unpacked part is as large again.
	if err := ensureSpace(cache, 2*total+500e6); err != nil {
		return "", err
	}
	step("fetching libtorch %s for %s (%s) into %s", torchVersion, p.Arch, megabytes(total), cache)
	var files []string
	for _, w := range p.Wheels {
		file, err := download(ctx, wheels, p, w)
		if err != nil {
			return "", err
		}
		files = append(files, file)
	}

	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := unpack(ctx, files, partial); err != nil {
		return "", err
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", err
	}
	for _, file := range files { // nothing reads the wheels any more
		if err := os.Remove(file); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// key changes with every pinned file.
func (p platform) key() string {
	h := sha256.New()
	for _, w := range p.Wheels {
		fmt.Fprintln(h, w.File, w.SHA256)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:4])
}

// unpack writes to dir what a build against libtorch needs of the wheels: the
// headers, libtorch_cpu.so, and the libraries that it needs in turn.
func unpack(ctx context.Context, wheels []string, dir string) error {
	var entries []*zip.File
	for _, file := range wheels {
		z, err := zip.OpenReader(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		defer z.Close()
		entries = append(entries, z.File...)
	}
	var headers []*zip.File
	var total int64
	libraries := make(map[string]*zip.File)
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name, "torch/include/") && !strings.HasSuffix(e.Name, "/"):
			headers = append(headers, e)
			total += int64(e.UncompressedSize64)
		case strings.Contains(path.Base(e.Name), ".so"):
			libraries[path.Base(e.Name)] = e
		}
	}
	root, ok := libraries["libtorch_cpu.so"]
	if !ok || len(headers) == 0 {
		return fmt.Errorf("%s holds no libtorch_cpu.so or no headers", wheels[0])
	}
	bar := newProgress("unpacking headers and libraries", total+int64(root.UncompressedSize64))
	var done int64
	extract := func(e *zip.File) (string, error) {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		to, err := extractFile(dir, e, func(n int64) { done += n; bar.update(done) })
		return to, err
	}
	for _, e := range headers {
		if _, err := extract(e); err != nil {
			return err
		}
	}
	// Breadth first over what each library names as needed.
	wanted := []*zip.File{root}
	for i := 0; i < len(wanted); i++ {
		to, err := extract(wanted[i])
		if err != nil {
			return err
		}
		names, _, err := dynamic(to)
		if err != nil {
			return err
		}
		for _, name := range names {
			if e, ok := libraries[name]; ok {
				wanted = append(wanted, e)
				delete(libraries, name)
			} else if !systemLibrary.MatchString(name) && !contains(wanted, name) {
				return fmt.Errorf("%s needs %s, which no pinned wheel holds", wanted[i].Name, name)
			}
		}
	}
	bar.finish()
	return nil
}

// systemLibrary matches the libraries that glibc and the compiler bring.
var systemLibrary = regexp.MustCompile(`^(ld-linux.*|lib(c|m|dl|rt|util|pthread|stdc\+\+|gcc_s|z)\.so.*)$`)

func contains(entries []*zip.File, base string) bool {
	for _, e := range entries {
		if path.Base(e.Name) == base {
			return true
		}
	}
	return false
}

// extractFile writes one entry below dir and reports the bytes written to count.
func extractFile(dir string, e *zip.File, count func(int64)) (string, error) {
	if !filepath.IsLocal(e.Name) {
		return "", fmt.Errorf("%q points out of the archive", e.Name)
	}
	to := filepath.Join(dir, e.Name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return "", err
	}
	in, err := e.Open()
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return "", err
	}
	defer out.Close()
	if _, err := io.Copy(io.MultiWriter(out, counter(count)), in); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", e.Name, err)
	}
	return to, out.Close()
}

// counter is a writer that only counts.
type counter func(int64)

func (c counter) Write(b []byte) (int, error) { c(int64(len(b))); return len(b), nil }
