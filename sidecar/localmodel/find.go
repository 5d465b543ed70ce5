package localmodel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/rewardmodel/hub"
	"assay/sidecar/cli"
)

// Find returns the checkpoint directory that name, the value of flag, refers to: the path itself, a directory of that
// name under models/, or one that was pulled there from the repository of that name. A relative name is looked up in the
// working directory, next to the binary, in the parent of the binary's directory (for bin/assay), and in share/assay of
// that parent (for an installed binary).
func Find(flag, name string) (string, error) {
	bases := []string{""}
	if binary, err := os.Executable(); err == nil && !filepath.IsAbs(name) {
		bases = append(bases, installed(binary)...)
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
	return "", cli.Usage(fmt.Errorf("%s %s: no such directory; tried %s", flag, name, strings.Join(tried, ", ")))
}

// installed are the directories relative to a binary in which models are looked up.
func installed(binary string) []string {
	dir := filepath.Dir(binary)
	prefix := filepath.Dir(dir)
	return []string{dir, prefix, filepath.Join(prefix, "share", "assay")}
}

// pulledAs reports whether dir was pulled from the repository.
func pulledAs(dir, repo string) bool {
	receipt, err := hub.ReadReceipt(dir)
	return err == nil && strings.EqualFold(receipt.Repo, repo)
}
