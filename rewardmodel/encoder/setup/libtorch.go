package main

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// libtorch describes what a build needs to know of an unpacked libtorch.
type libtorch struct {
	Dir      string   // contains include/ and lib/
	Version  string   // such as "2.15.0", from its headers
	Standard int      // the C++ standard that its headers require, such as 20
	ABI      int      // _GLIBCXX_USE_CXX11_ABI: 1 or 0
	CUDA     bool     // it has lib/libtorch_cuda.so
	LinkDirs []string // directories of the libraries that it needs in turn
	Changed  string   // size and time of libtorch_cpu.so, which change with an upgrade in place

	pinned bool
}

// inspect describes the libtorch in dir: an unpacked libtorch, the "torch"
// directory of a site-packages, or a directory that contains one of them.
func inspect(dir string) (libtorch, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return libtorch{}, err
	}
	for _, sub := range []string{"", "torch", "libtorch"} {
		if at := filepath.Join(dir, sub); exists(filepath.Join(at, "lib", "libtorch_cpu.so")) {
			return inspectAt(at)
		}
	}
	return libtorch{}, errors.New("no lib/libtorch_cpu.so in it: give the directory of an unpacked libtorch, or <site-packages>/torch " +
		`(python3 -c "import torch; print(torch.__path__[0])")`)
}

func inspectAt(dir string) (libtorch, error) {
	t := libtorch{Dir: dir}
	if err := checkPath("libtorch's directory", dir); err != nil {
		return t, err
	}
	var err error
	if t.Version, err = headerVersion(filepath.Join(dir, "include/torch")); err != nil {
		return t, err
	}
	if t.Standard, err = headerStandard(filepath.Join(dir, "include/ATen/ATen.h")); err != nil {
		return t, err
	}
	if t.ABI, err = libraryABI(filepath.Join(dir, "lib/libc10.so")); err != nil {
		return t, err
	}
	cpu := filepath.Join(dir, "lib/libtorch_cpu.so")
	info, err := os.Stat(cpu)
	if err != nil {
		return t, err
	}
	t.Changed = fmt.Sprint(info.Size(), " ", info.ModTime().Unix())
	roots := []string{cpu}
	if cuda := filepath.Join(dir, "lib/libtorch_cuda.so"); exists(cuda) {
		t.CUDA = true
		roots = append(roots, cuda)
	}
	var missing []string
	if t.LinkDirs, missing, err = linkDirs(roots); err != nil {
		return t, err
	}
	if len(missing) > 0 {
		step("  note: libtorch needs %s, which is not where it looks for it: it must be on the system's library path", strings.Join(missing, ", "))
	}
	return t, nil
}

func (t libtorch) cudaNote() string {
	if t.CUDA {
		return ", with CUDA"
	}
	return ""
}

// compileFlags are those of the compiler for the wrappers. They are thin glue around operators: compiling torch_api.cpp without
// debug information took (seconds, object size) 27, 6.8 MB with -O0; 40, 3.7 MB with -O1; 53, 4.3 MB with -O2.
func (t libtorch) compileFlags() []string {
	include := filepath.Join(t.Dir, "include")
	return []string{
		fmt.Sprintf("-std=c++%d", t.Standard), fmt.Sprintf("-D_GLIBCXX_USE_CXX11_ABI=%d", t.ABI), "-O1", "-g0", "-w",
		"-I" + include, "-I" + include + "/torch/csrc/api/include",
	}
}

// linkFlags link the library of the wrappers with t, which it looks for in its own directory and where it is now.
func (t libtorch) linkFlags() []string {
	lib := filepath.Join(t.Dir, "lib")
	link := []string{"-Wl,-soname," + libraryName, "-L" + lib, "-Wl,-rpath,$ORIGIN", "-Wl,-rpath," + lib}
	for _, dir := range t.LinkDirs {
		link = append(link, "-Wl,-rpath-link,"+dir)
	}
	// Nothing calls libtorch_cpu by name: without --no-as-needed the linker drops it.
	link = append(link, "-Wl,--no-as-needed", "-ltorch_cpu", "-lc10")
	if t.CUDA {
		link = append(link, "-ltorch_cuda", "-lc10_cuda")
	}
	return append(link, "-Wl,--as-needed", "-lstdc++")
}

// cgoFlags renders the cgo directives of the bindings in the directory gotch. Every path is absolute and the run path is baked in,
// so no environment variable is needed to build or to run.
func (t libtorch) cgoFlags(gotch string) string {
	return fmt.Sprintf("// #cgo CFLAGS: -O1 -g0 -w\n// #cgo LDFLAGS: -ldl -Wl,-rpath,%s -Wl,-rpath,%s", filepath.Join(gotch, "lib"), filepath.Join(t.Dir, "lib"))
}

var versionMacro = regexp.MustCompile(`(?m)^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) (\d+)`)

// headerVersion reads the version macros, which moved from one header to another.
func headerVersion(dir string) (string, error) {
	for _, file := range []string{"headeronly/version.h", "csrc/api/include/torch/version.h"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		if m := versionMacro.FindAllSubmatch(text, -1); len(m) == 3 {
			return fmt.Sprintf("%s.%s.%s", m[0][2], m[1][2], m[2][2]), nil
		}
	}
	return "", fmt.Errorf("no TORCH_VERSION in the headers below %s: the C++ headers must be next to lib", dir)
}

var standardError = regexp.MustCompile(`#error C\+\+(\d\d) or later`)

// headerStandard reads the C++ standard that ATen.h requires; headers that name none need C++17 or less.
func headerStandard(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("its headers are missing: %w", err)
	}
	m := standardError.FindSubmatch(text)
	if m == nil {
		return 17, nil
	}
	standard, err := strconv.Atoi(string(m[1]))
	return max(standard, 17), err
}

// libraryABI returns which std::string libc10's own functions take: 1 for the
// C++11 one, 0 for its predecessor.
func libraryABI(file string) (int, error) {
	f, err := elf.Open(file)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	for _, s := range symbols {
		// c10::Error's constructors take strings in every version.
		if strings.HasPrefix(s.Name, "_ZN3c105ErrorC1") {
			if strings.Contains(s.Name, "__cxx11") {
				return 1, nil
			}
			if strings.Contains(s.Name, "Ss") {
				return 0, nil
			}
		}
	}
	return 0, fmt.Errorf("%s: no constructor of c10::Error that takes a string, which identifies the C++ ABI", file)
}

// linkDirs follows what the libraries need through their run paths, as the
// loader will, and returns the directories found, for the linker, and the names
// not found that neither glibc, nor the compiler, nor the driver provides.
func linkDirs(files []string) (dirs, missing []string, err error) {
	seen := make(map[string]bool)
	for i := 0; i < len(files); i++ {
		dir := filepath.Dir(files[i])
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		names, search, err := dynamic(files[i])
		if err != nil {
			return nil, nil, err
		}
		search = append(search, dir)
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			if at := slices.IndexFunc(search, func(dir string) bool { return exists(filepath.Join(dir, name)) }); at >= 0 {
				files = append(files, filepath.Join(search[at], name))
			} else if !systemLibrary.MatchString(name) {
				missing = append(missing, name)
			}
		}
	}
	return dirs, missing, nil
}

// dynamic reads the names that an ELF file needs and its run path.
func dynamic(file string) (names, search []string, err error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	if names, err = f.DynString(elf.DT_NEEDED); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		paths, err := f.DynString(tag)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, path := range paths {
			for dir := range strings.SplitSeq(path, ":") {
				search = append(search, filepath.Clean(strings.ReplaceAll(dir, "$ORIGIN", filepath.Dir(file))))
			}
		}
	}
	return names, search, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
