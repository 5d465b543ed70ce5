package main

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// licenseFile matches the names of license texts, such as LICENSE.md and COPYING;
// a directory of that name contains them (golang/freetype has licenses/ftl.txt).
var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[sc]es?|copying|notice|copyright|patents)([.-].*)?$`)

// collectLicenses copies the license texts of the Go standard library and of
// each module that is linked into the binary to out/go/<module path>. It
// returns an error that names every module without a text. source is the
// repository that the binary was built from.
func collectLicenses(ctx context.Context, info *buildinfo.BuildInfo, source, out string) error {
	dirs, err := moduleDirs(ctx, source, info.Deps)
	if err != nil {
		return err
	}
	root, err := goCommand(ctx, source, "env", "GOROOT")
	if err != nil {
		return err
	}
	failures := copyLicenses(os.DirFS(strings.TrimSpace(string(root))), filepath.Join(out, "go", "std"), "the Go standard library", 1)
	for _, dep := range info.Deps {
		err := copyLicenses(os.DirFS(dirs[dep.Path]), filepath.Join(out, "go", filepath.FromSlash(dep.Path)), dep.Path+"@"+dep.Version, 0)
		failures = errors.Join(failures, err)
	}
	return failures
}

// moduleDirs finds the source of each module where the build found it: in the
// module cache, or in the directory that replaces it.
func moduleDirs(ctx context.Context, source string, deps []*debug.Module) (map[string]string, error) {
	args := []string{"list", "-m", "-f", `{{.Path}}{{"\t"}}{{with .Replace}}{{.Dir}}{{else}}{{.Dir}}{{end}}`}
	for _, dep := range deps {
		args = append(args, dep.Path)
	}
	listed, err := goCommand(ctx, source, args...)
	if err != nil {
		return nil, err
	}
	dirs := make(map[string]string, len(deps))
	for line := range strings.Lines(string(listed)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), "\t")
		dirs[path] = dir
	}
	for _, dep := range deps {
		if dirs[dep.Path] == "" {
			return nil, fmt.Errorf("%s@%s is linked into the binary, but its source is not in the module cache: run go mod download", dep.Path, dep.Version)
		}
	}
	return dirs, nil
}

// goCommand runs go in dir with the workspace of that directory.
func goCommand(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(complaint.Bytes()))
	}
	return out, nil
}

// copyLicenses copies the license texts of a source tree to dir with their
// paths, down to depth directories (0: all), and fails unless one is at the
// top: texts further down cover only a part.
func copyLicenses(tree fs.FS, dir, name string, depth int) error {
	top := false
	err := fs.WalkDir(tree, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if entry.Name() == "testdata" || depth > 0 && file != "." && strings.Count(file, "/")+1 >= depth {
				return fs.SkipDir
			}
			return nil
		}
		parent := path.Base(path.Dir(file))
		if strings.HasSuffix(file, ".go") || !licenseFile.MatchString(entry.Name()) && !licenseFile.MatchString(parent) {
			return nil
		}
		top = top || path.Dir(file) == "."
		text, err := fs.ReadFile(tree, file)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
	if err != nil {
		return fmt.Errorf("license of %s: %w", name, err)
	}
	if !top {
		return fmt.Errorf("%s has no license file: its terms are unknown, so the image must not contain it", name)
	}
	return nil
}
