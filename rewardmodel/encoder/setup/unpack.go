package main

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// layout is part of the key of an unpacked libtorch: increment it when unpack
// writes other files from the same wheels.
const layout = 2

// fetchLibtorch returns the cache's directory of the pinned libtorch, which holds
// torch/include, torch/lib, the nvidia libraries where torch's own run path
// expects them, and licenses. It is downloaded and unpacked when the cache lacks it.
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
	// Three times: pip copies one wheel out of its temporary directory, and unpacked
	// libraries can be twice the size of their wheels.
	if err := ensureSpace(cache, 3*total+500e6); err != nil {
		return "", err
	}
	step("fetching libtorch %s for %s, %s (%s), into %s", torchVersion, p.Arch, p.Device, megabytes(total), cache)
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
	if err := unpack(ctx, files, partial, p); err != nil {
		return "", err
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", err
	}
	for _, file := range files { // nothing reads the wheels after this
		if err := os.Remove(file); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// key changes with every pinned file and with the layout.
func (p platform) key() string {
	h := sha256.New()
	fmt.Fprintln(h, layout)
	for _, w := range p.Wheels {
		fmt.Fprintln(h, w.File, w.SHA256)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:4])
}

// contents lists the entries of wheels that a build against libtorch, or an
// image of that build, needs.
type contents struct {
	headers   []*zip.File
	libraries map[string]*zip.File // by base name
	licenses  map[string]*zip.File // by the path below the directory of licenses
}

func (c *contents) add(wheel string, entries []*zip.File) error {
	for _, e := range entries {
		switch {
		case strings.HasPrefix(e.Name, "torch/include/") && !strings.HasSuffix(e.Name, "/"):
			c.headers = append(c.headers, e)
		case strings.HasSuffix(e.Name, ".so") || strings.Contains(path.Base(e.Name), ".so."):
			c.libraries[path.Base(e.Name)] = e
		}
	}
	texts, err := wheelLicenses(wheel, entries)
	maps.Copy(c.licenses, texts)
	return err
}

// size estimates the bytes that unpack writes: the small libraries that others
// need are not counted.
func (c *contents) size(p platform) (total int64) {
	for _, e := range c.headers {
		total += int64(e.UncompressedSize64)
	}
	for name, e := range c.libraries {
		if slices.Contains(p.roots(), name) || p.Device == cuda && strings.HasPrefix(e.Name, "nvidia/") {
			total += int64(e.UncompressedSize64)
		}
	}
	return total
}

// unpack writes to dir what a build against libtorch needs of the wheels: the
// headers, the libraries of the platform's device with all that they need in
// turn, and below dir/licenses the license texts of those libraries.
func unpack(ctx context.Context, wheels []string, dir string, p platform) error {
	c := contents{libraries: make(map[string]*zip.File), licenses: make(map[string]*zip.File)}
	for _, file := range wheels {
		z, err := zip.OpenReader(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		defer z.Close()
		if err := c.add(filepath.Base(file), z.File); err != nil {
			return err
		}
	}
	if c.libraries["libtorch_cpu.so"] == nil || len(c.headers) == 0 {
		return fmt.Errorf("%s contains no libtorch_cpu.so or no headers", wheels[0])
	}
	x := extraction{dir: dir, bar: newProgress("unpacking headers and libraries", c.size(p))}
	for _, e := range c.headers {
		if _, err := x.extract(ctx, e, e.Name); err != nil {
			return err
		}
	}
	libraries, err := x.extractLibraries(ctx, c.libraries, p)
	if err != nil {
		return err
	}
	if err := x.extractLicenses(ctx, c.licenses, libraries, p); err != nil {
		return err
	}
	x.bar.finish()
	return nil
}

// extraction writes entries of archives below dir.
type extraction struct {
	dir  string
	bar  *progress
	done int64
}

func (x *extraction) extract(ctx context.Context, e *zip.File, name string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return extractFile(x.dir, name, e, func(n int64) { x.done += n; x.bar.update(x.done) })
}

// extractLibraries extracts the platform's root libraries and, breadth first,
// what each library names as needed. With CUDA it then extracts the rest of the
// nvidia libraries, which load each other by name at run time.
func (x *extraction) extractLibraries(ctx context.Context, libraries map[string]*zip.File, p platform) (names []string, err error) {
	wanted := make([]*zip.File, 0, len(libraries))
	for _, root := range p.roots() {
		e, ok := libraries[root]
		if !ok {
			return nil, fmt.Errorf("the wheels contain no %s", root)
		}
		wanted = append(wanted, e)
	}
	for i := 0; i < len(wanted); i++ {
		to, err := x.extract(ctx, wanted[i], wanted[i].Name)
		if err != nil {
			return nil, err
		}
		needed, _, err := dynamic(to)
		if err != nil {
			return nil, err
		}
		for _, name := range needed {
			e, ok := libraries[name]
			switch {
			case ok && !slices.Contains(wanted, e):
				wanted = append(wanted, e)
			case !ok && !systemLibrary.MatchString(name):
				return nil, fmt.Errorf("%s needs %s, which no pinned wheel contains", wanted[i].Name, name)
			}
		}
	}
	if p.Device == cuda {
		for _, base := range slices.Sorted(maps.Keys(libraries)) {
			e := libraries[base]
			if !strings.HasPrefix(e.Name, "nvidia/") || slices.Contains(wanted, e) {
				continue
			}
			if _, err := x.extract(ctx, e, e.Name); err != nil {
				return nil, err
			}
			wanted = append(wanted, e)
		}
	}
	for _, e := range wanted {
		names = append(names, e.Name)
	}
	return names, nil
}

// extractLicenses writes the license texts of the wheels and of the code that
// torch's wheel bundles.
func (x *extraction) extractLicenses(ctx context.Context, texts map[string]*zip.File, libraries []string, p platform) error {
	for _, to := range slices.Sorted(maps.Keys(texts)) {
		if _, err := x.extract(ctx, texts[to], path.Join("licenses", to)); err != nil {
			return err
		}
	}
	bundled, err := bundledLicenses(libraries)
	return errors.Join(err, writeBundled(filepath.Join(x.dir, "licenses"), append(bundled, p.Static...)))
}

// systemLibrary matches the libraries that come with glibc, the compiler and the GPU's driver.
var systemLibrary = regexp.MustCompile(`^(ld-linux.*|lib(c|m|dl|rt|util|pthread|stdc\+\+|gcc_s|z|cuda)\.so.*)$`)

// extractFile writes one entry below dir under the given name and reports the bytes written to count.
func extractFile(dir, name string, e *zip.File, count func(int64)) (string, error) {
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("%q points out of the archive", name)
	}
	to := filepath.Join(dir, name)
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
