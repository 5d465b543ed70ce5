package localmodel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/rewardmodel/hub"
	"assay/sidecar/cli"
)

// Find returns the directory that name, the value of flag, stands for: itself,
// below models/, or what was pulled to there from a repository of that name; in
// the working directory, next to the binary, or next to the binary's directory (as
// with bin/assay).
func Find(flag, name string) (string, error) {
	bases := []string{""}
	if binary, err := os.Executable(); err == nil && !filepath.IsAbs(name) {
		dir := filepath.Dir(binary)
		bases = append(bases, dir, filepath.Dir(dir))
	}
	var tried []string
	for _, base := range bases {
		for _, dir := range []string{filepath.Join(base, name), filepath.Join(base, "models", name)} {
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				return dir, nil
			}
			tried = append(tried, dir)
			if filepath.IsAbs(name) {
				break
			}
		}
		if dir := filepath.Join(base, "models", filepath.Base(name)); pulledAs(dir, name) {
			return dir, nil
		}
	}
	return "", cli.Usage(fmt.Errorf("%s %s: no such folder; looked for %s", flag, name, strings.Join(tried, ", ")))
}

// pulledAs tells whether dir was pulled from the repository.
func pulledAs(dir, repo string) bool {
	receipt, err := hub.ReadReceipt(dir)
	return err == nil && strings.EqualFold(receipt.Repo, repo)
}
