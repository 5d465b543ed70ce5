package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const wrappersFile = "libtch/torch_api_generated.cpp.h"

// fitWrappers replaces the wrappers that torch's headers cannot compile by
// ones that return an error. For the pinned libtorch they are known; for
// any other one the compiler finds them: compile, stub what fails, repeat.
func fitWrappers(ctx context.Context, dir string, torch libtorch) error {
	path := filepath.Join(dir, wrappersFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if known := knownStubs[torch.Version]; known != nil {
		if text, err = stubNamed(text, known); err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
		if torch.pinned {
			return nil
		}
	}
	const passes = 10 // one error can hide others; 2 passes are the rule
	for range passes {
		step("  checking the wrappers against libtorch's headers (10 to 40 s)")
		complaint, err := checkSyntax(ctx, dir, torch)
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		var names []string
		text, names = stubLines(text, failingLines(complaint))
		if len(names) == 0 {
			return fmt.Errorf("gotch does not compile against libtorch %s, for more reasons than its generated wrappers (%w):\n%s",
				torch.Version, err, firstErrors(complaint, 10))
		}
		slices.Sort(names)
		step("  %d wrappers are not in this libtorch: %s", len(names), strings.Join(names, " "))
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return err
		}
	}
	return errors.New("the wrappers still do not compile against libtorch " + torch.Version + ": use another version")
}

// checkSyntax compiles the wrappers without code and returns the compiler's output when it fails.
func checkSyntax(ctx context.Context, dir string, torch libtorch) (complaint []byte, err error) {
	cxx := compiler()
	args := slices.Concat(cxx[1:], torch.compileFlags(), []string{"-fsyntax-only", "-fmax-errors=0", "torch_api.cpp"})
	cmd := exec.CommandContext(ctx, cxx[0], args...)
	cmd.Dir = filepath.Join(dir, "libtch")
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var out bytes.Buffer
	cmd.Stderr = &out
	err = cmd.Run()
	return out.Bytes(), err
}

var (
	errorLine = regexp.MustCompile(`(?m)torch_api_generated\.cpp\.h:(\d+):\d+:\s+(?:fatal )?(?:error:|required from here)`)
	// A wrapper starts at the margin with its type and name and ends with "}" at the margin.
	wrapperStart = regexp.MustCompile(`^([a-z][a-z0-9_ ]*[ *]+)(at\w+)\(.*\) \{$`)
)

// failingLines lists the lines of the generated wrappers that the compiler complains about.
func failingLines(complaint []byte) []int {
	var lines []int
	for _, m := range errorLine.FindAllSubmatch(complaint, -1) {
		if n, err := strconv.Atoi(string(m[1])); err == nil && !slices.Contains(lines, n) {
			lines = append(lines, n)
		}
	}
	return lines
}

// firstErrors keeps the first n error lines of the compiler's output.
func firstErrors(complaint []byte, n int) string {
	var kept []string
	for line := range strings.SplitSeq(string(complaint), "\n") {
		if strings.Contains(line, "error:") && len(kept) < n {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// stubLines stubs the wrappers around the given lines (the first line is 1).
// A stub has as many lines as the wrapper it replaces, so line numbers stay.
func stubLines(text []byte, lines []int) (stubbed []byte, names []string) {
	return stubWhere(text, func(_ string, first, last int) bool {
		return slices.ContainsFunc(lines, func(n int) bool { return first <= n && n <= last })
	})
}

// stubNamed stubs the wrappers of these names, all of which must be there.
func stubNamed(text []byte, wanted []string) ([]byte, error) {
	text, names := stubWhere(text, func(name string, _, _ int) bool { return slices.Contains(wanted, name) })
	if len(names) != len(wanted) {
		return nil, fmt.Errorf("%s: stubbed %v, wanted %v: the text is not gotch %s's", wrappersFile, names, wanted, gotchVersion)
	}
	return text, nil
}

// stubWhere replaces the bodies of the wrappers that match by one that reports
// an error through gotch's usual path.
func stubWhere(text []byte, match func(name string, first, last int) bool) (stubbed []byte, names []string) {
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		m := wrapperStart.FindStringSubmatch(lines[i])
		if m == nil {
			continue
		}
		end := i + 1
		for end < len(lines) && lines[end] != "}" {
			end++
		}
		if end < len(lines) && match(m[2], i+1, end+1) {
			names = append(names, m[2])
			body := fmt.Sprintf(`  PROTECT(throw std::runtime_error("%s: not in this libtorch");)`, strings.TrimPrefix(m[2], "atg_"))
			if strings.TrimSpace(m[1]) != "void" {
				body += " return 0;"
			}
			lines[i+1] = body
			for at := i + 2; at < end; at++ {
				lines[at] = ""
			}
		}
		i = end
	}
	return []byte(strings.Join(lines, "\n")), names
}
