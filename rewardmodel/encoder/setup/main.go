// Command setup prepares a machine to build assay: it fetches the pinned
// libtorch, fits a copy of the gotch bindings to it, and points a generated
// go.work at that copy, so that plain "go build ./..." and "go test ./..."
// work with no environment variables.
//
// Everything it prepares is in the user's cache directory (ASSAY_CACHE names
// another), keyed by versions, architecture, device and patch: a second clone
// reuses it, and a second run finds nothing to do. Each stage works under a
// temporary name and renames at its end, so an interrupted run resumes at the
// stage it was in. -device cuda fetches the libtorch with CUDA; every wheel is
// pinned by its SHA-256. LIBTORCH=DIR fits the bindings to an existing libtorch
// instead.
//
// It uses only the standard library and runs outside the workspace:
//
//	GOWORK=off go run ./rewardmodel/encoder/setup [-device cpu|cuda]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	device := flag.String("device", cpu, "libtorch to fetch: cpu or cuda")
	flag.Parse()
	if err := run(ctx, *device); err != nil {
		fmt.Fprintln(os.Stderr, "set-up:", err)
		os.Exit(1)
	}
}

// run brings the repository in the current directory to a buildable state.
func run(ctx context.Context, device string) error {
	start := time.Now()
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	cache, err := cacheDir()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, filepath.Join(cache, "lock"))
	if err != nil {
		return err
	}
	defer unlock()

	if err := ensureCompiler(ctx); err != nil {
		return err
	}
	torch, err := provideLibtorch(ctx, cache, os.Getenv("LIBTORCH"), device)
	if err != nil {
		return err
	}
	copied, err := provideGotch(ctx, root, cache, torch)
	if err != nil {
		return err
	}
	if err := writeWorkspace(root, copied); err != nil {
		return err
	}
	step("ready: libtorch %s, gotch %s (%s)", torch.Version, gotchVersion, time.Since(start).Round(10*time.Millisecond))
	return nil
}

// repositoryRoot finds the directory of go.mod at or above the current one.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod at or above %s: run it inside the repository (make setup)", dir)
		}
	}
}

// cacheDir returns the directory of everything prepared: $ASSAY_CACHE, else
// "assay" in the user's cache directory.
func cacheDir() (string, error) {
	dir := os.Getenv("ASSAY_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no cache directory: set ASSAY_CACHE to a directory: %w", err)
		}
		dir = filepath.Join(user, "assay")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := checkPath("ASSAY_CACHE", dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// checkPath rejects what the linker's and cgo's flags cannot carry.
func checkPath(name, dir string) error {
	if i := strings.IndexFunc(dir, func(r rune) bool { return strings.ContainsRune(" \t\n\"'\\$,", r) }); i >= 0 {
		return fmt.Errorf("%s=%q: the linker's flags cannot carry the character %q: choose another directory", name, dir, dir[i])
	}
	return nil
}

// platformFor returns what to download; only Linux on x86-64 and aarch64 has wheels.
func platformFor(goos, goarch, device string) (platform, error) {
	p, ok := platforms[goarch]
	if goos != "linux" || !ok {
		return platform{}, fmt.Errorf("no libtorch is pinned for %s/%s: use Linux on x86-64 or aarch64, or set LIBTORCH to the directory of an existing libtorch", goos, goarch)
	}
	switch device {
	case cpu:
	case cuda:
		p.Wheels = slices.Concat(p.Wheels, p.CUDA)
	default:
		return platform{}, fmt.Errorf("device %q: use cpu or cuda", device)
	}
	p.Device = device
	return p, nil
}

// provideLibtorch returns the libtorch to fit to: the one in dir where it is
// set, else the pinned one for the device, fetched when the cache lacks it.
func provideLibtorch(ctx context.Context, cache, dir, device string) (libtorch, error) {
	if dir != "" {
		torch, err := inspect(dir)
		if err != nil {
			return libtorch{}, fmt.Errorf("LIBTORCH=%s: %w", dir, err)
		}
		if device == cuda && !torch.CUDA {
			return libtorch{}, fmt.Errorf("LIBTORCH=%s: it has no lib/libtorch_cuda.so, which device cuda needs: unset LIBTORCH to fetch one", dir)
		}
		step("libtorch %s at %s (C++%d, CXX11 ABI %d%s)", torch.Version, torch.Dir, torch.Standard, torch.ABI, torch.cudaNote())
		return torch, nil
	}
	p, err := platformFor(runtime.GOOS, runtime.GOARCH, device)
	if err != nil {
		return libtorch{}, err
	}
	dir, err = fetchLibtorch(ctx, cache, p)
	if err != nil {
		return libtorch{}, err
	}
	torch, err := inspect(filepath.Join(dir, "torch"))
	if err != nil {
		return libtorch{}, err
	}
	torch.pinned = true
	return torch, nil
}
