package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// compilerHelp describes how to get a C++ compiler where apt is not available.
const compilerHelp = "install a C++ compiler (Debian/Ubuntu: sudo apt-get install g++; Fedora: sudo dnf install gcc-c++; Arch: sudo pacman -S gcc) or set CXX to one"

// compiler returns the C++ compiler that cgo uses: $CXX, else g++.
func compiler() []string {
	if cxx := strings.Fields(os.Getenv("CXX")); len(cxx) > 0 {
		return cxx
	}
	return []string{"g++"}
}

// ensureCompiler installs g++ by apt when there is none.
func ensureCompiler(ctx context.Context) error {
	if os.Getenv("CGO_ENABLED") == "0" {
		return fmt.Errorf("CGO_ENABLED=0: libtorch needs cgo: unset it")
	}
	cxx := compiler()[0]
	if _, err := exec.LookPath(cxx); err == nil {
		return nil
	}
	if cxx != "g++" {
		return fmt.Errorf("CXX=%s is not on the PATH: %s", cxx, compilerHelp)
	}
	apt, err := aptCommand(os.Geteuid(), exec.LookPath)
	if err != nil {
		return err
	}
	step("no g++: installing it by apt (about 200 MB on disk)")
	for _, args := range [][]string{{"update", "-q"}, {"install", "-y", "-q", "--no-install-recommends", "g++", "libc6-dev"}} {
		cmd := exec.CommandContext(ctx, apt[0], append(apt[1:len(apt):len(apt)], args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s failed (%w): %s", strings.Join(cmd.Args, " "), err, compilerHelp)
		}
	}
	return nil
}

// aptCommand returns apt-get with the permission to install: as root, or through a
// sudo that asks for no password.
func aptCommand(uid int, look func(string) (string, error)) ([]string, error) {
	apt, err := look("apt-get")
	if err != nil {
		return nil, fmt.Errorf("no g++ and no apt-get: %s", compilerHelp)
	}
	if uid == 0 {
		return []string{apt}, nil
	}
	sudo, err := look("sudo")
	if err != nil {
		return nil, fmt.Errorf("no g++, and neither root nor sudo to install it: %s", compilerHelp)
	}
	return []string{sudo, "-n", apt}, nil
}

// pipCommand finds a pip that works.
func pipCommand(ctx context.Context) ([]string, error) {
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"pip3"}, {"pip"}, {"python", "-m", "pip"}} {
		args := append(pip[1:len(pip):len(pip)], "--version")
		if exec.CommandContext(ctx, pip[0], args...).Run() == nil {
			return pip, nil
		}
	}
	return nil, fmt.Errorf("no pip, which downloads libtorch: install it (Debian/Ubuntu: sudo apt-get install python3-pip), " +
		"or set LIBTORCH to the directory of an existing libtorch")
}

// ensureSpace fails when dir's file system has less than need bytes free.
func ensureSpace(dir string, need int64) error {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return fmt.Errorf("free space of %s: %w", dir, err)
	}
	if free := int64(fs.Bavail) * int64(fs.Bsize); free < need { //nolint:unconvert // of another type on other systems
		return fmt.Errorf("%s has %s free, %s are needed: make room, or set ASSAY_CACHE to a directory on another disk", dir, megabytes(free), megabytes(need))
	}
	return nil
}
