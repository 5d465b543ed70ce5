package main

import (
	"archive/zip"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// bundledTexts holds the license texts that torch's wheels omit (see licenses/README.md).
//
//go:embed licenses
var bundledTexts embed.FS

// bundledCode assigns the files of torch/lib to directories of bundledTexts.
// torch's own libraries have their texts in the wheel; "" marks those.
var bundledCode = []struct {
	name      *regexp.Regexp
	directory string
}{
	{regexp.MustCompile(`^lib(torch|c10|caffe2|shm)`), ""},
	{regexp.MustCompile(`^lib(gomp|gfortran)\.`), "gcc"},
	{regexp.MustCompile(`^libnvpl_`), "nvpl"},
	{regexp.MustCompile(`^libarm_compute`), "arm-compute-library"},
}

// licenseFile matches the names of license texts, such as LICENSE.txt and License.txt.
var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying|notice|copyright|patents)`)

// licensePath returns where an entry of a wheel is stored below the
// directory of licenses, and whether the entry is a license text of the wheel's
// native code. The wheel's file name begins with the package's name.
func licensePath(wheel, entry string) (string, bool) {
	if strings.HasSuffix(entry, "/") {
		return "", false
	}
	name, _, _ := strings.Cut(filepath.Base(wheel), "-")
	top, rest, _ := strings.Cut(entry, "/")
	if strings.HasSuffix(top, ".dist-info") {
		if text, ok := strings.CutPrefix(rest, "licenses/"); ok {
			return path.Join(name, text), true
		}
		return path.Join(name, rest), licenseFile.MatchString(rest)
	}
	return path.Join(name, path.Base(entry)), top == "nvidia" && licenseFile.MatchString(path.Base(entry))
}

// wheelLicenses finds the license texts of one wheel, by their path below the
// directory of licenses. A wheel without any is an error.
func wheelLicenses(wheel string, entries []*zip.File) (map[string]*zip.File, error) {
	found := make(map[string]*zip.File)
	for _, e := range entries {
		if to, ok := licensePath(wheel, e.Name); ok {
			found[to] = e
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s contains no license file", wheel)
	}
	return found, nil
}

// bundledLicenses lists the directories of bundledTexts that the libraries of
// torch/lib need. A library that no rule covers is an error: its license is unknown.
func bundledLicenses(libraries []string) (directories []string, err error) {
	for _, library := range libraries {
		if !strings.HasPrefix(library, "torch/lib/") {
			continue // part of a separate wheel
		}
		known := false
		for _, rule := range bundledCode {
			if !rule.name.MatchString(path.Base(library)) {
				continue
			}
			known = true
			if rule.directory != "" && !slices.Contains(directories, rule.directory) {
				directories = append(directories, rule.directory)
			}
		}
		if !known {
			err = errors.Join(err, fmt.Errorf("%s: unknown license: add its text to rewardmodel/encoder/setup/licenses and a rule to bundledCode", library))
		}
	}
	return directories, err
}

// writeBundled copies directories of bundledTexts below dir.
func writeBundled(dir string, directories []string) error {
	for _, directory := range directories {
		texts, err := fs.Sub(bundledTexts, "licenses/"+directory)
		if err != nil {
			return err
		}
		if err := os.CopyFS(filepath.Join(dir, directory), texts); err != nil {
			return fmt.Errorf("license texts of %s: %w", directory, err)
		}
	}
	return nil
}
