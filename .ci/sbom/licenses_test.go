package main

import (
	"debug/buildinfo"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestCopyLicenses(t *testing.T) {
	text := &fstest.MapFile{Data: []byte("terms")}
	for name, c := range map[string]struct {
		tree fstest.MapFS
		want []string // nil: an error that names the module
	}{
		"all texts of the tree": {
			fstest.MapFS{
				"LICENSE.md": text, "NOTICE": text, "PATENTS": text, "licenses/gpl.txt": text, "zstd/internal/COPYING": text,
				"license.go": text, "licensed.txt": text, "testdata/LICENSE": text, "main.go": text,
			},
			[]string{"LICENSE.md", "NOTICE", "PATENTS", "licenses/gpl.txt", "zstd/internal/COPYING"},
		},
		"another spelling":     {fstest.MapFS{"licence": text}, []string{"licence"}},
		"a text with a suffix": {fstest.MapFS{"LICENSE-SIL": text}, []string{"LICENSE-SIL"}},
		"none":                 {fstest.MapFS{"main.go": text}, nil},
		"only that of a part":  {fstest.MapFS{"zstd/LICENSE": text}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			out := t.TempDir()
			err := copyLicenses(c.tree, out, "example.com/m@v1", 0)
			if c.want == nil {
				if err == nil || !strings.Contains(err.Error(), "example.com/m@v1 has no license file") {
					t.Errorf("got %v", err)
				}
				return
			}
			if got := files(t, out); err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// The program's own dependency stands for a linked module; a module that the
// repository does not have stops the collection.
func TestCollectLicenses(t *testing.T) {
	source := t.TempDir() // outside of the repository's workspace
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(source, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	info := &buildinfo.BuildInfo{Deps: []*debug.Module{{Path: "github.com/CycloneDX/cyclonedx-go", Version: "v0.12.0"}}}
	out := t.TempDir()
	if err := collectLicenses(t.Context(), info, source, out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"go/std/LICENSE", "go/github.com/CycloneDX/cyclonedx-go/LICENSE"} {
		if !slices.Contains(files(t, out), want) {
			t.Errorf("no %s in %q", want, files(t, out))
		}
	}
	info.Deps = append(info.Deps, &debug.Module{Path: "example.com/unknown", Version: "v1.0.0"})
	if err := collectLicenses(t.Context(), info, source, t.TempDir()); err == nil || !strings.Contains(err.Error(), "example.com/unknown") {
		t.Errorf("an unknown module: got %v", err)
	}
}

// files lists the regular files below dir in lexical order.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(file string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, filepath.ToSlash(file))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestLicenseKind(t *testing.T) {
	text := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	const mit, bsd = "Permission is hereby granted,\n\tfree of charge, to any person", "Redistribution and use in source and binary forms. Neither the name of"
	for name, c := range map[string]struct {
		tree fstest.MapFS
		want string // or says
		says string
	}{
		"one":                {fstest.MapFS{"LICENSE": text(mit)}, "MIT", ""},
		"two":                {fstest.MapFS{"LICENSE": text(bsd), "LICENSE-2": text(mit), "NOTICE": text("Copyright")}, "BSD-3-Clause AND MIT", ""},
		"the same twice":     {fstest.MapFS{"COPYING": text(mit), "LICENSE": text(mit)}, "MIT", ""},
		"of a part":          {fstest.MapFS{"LICENSE": text(mit), "x/COPYING": text("GNU GENERAL PUBLIC LICENSE Version 3")}, "MIT", ""},
		"not recognized":     {fstest.MapFS{"LICENSE": text("All rights reserved.")}, "", "no known license"},
		"must not be linked": {fstest.MapFS{"LICENSE": text("GNU AFFERO GENERAL PUBLIC LICENSE\n Version 3")}, "", "do not link"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := licenseKind(c.tree, "example.com/m")
			if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
