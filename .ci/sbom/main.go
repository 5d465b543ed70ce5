// Command sbom prints the bill of materials of an image of assay as CycloneDX
// JSON: the Go modules that are linked into the binary, the native libraries
// and the model. With -licenses it also copies the license texts of those
// modules to DIR/go, lists their licenses, and fails if one has no text or a license
// that the binary must not have; the set-up collects those of the native libraries.
//
//	go run . -lib DIR -model DIR [-source DIR -licenses DIR] BINARY
//
// It does not list the packages of the base image: a scanner reads those from
// the image.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// inputs names what the image is made of.
type inputs struct {
	Binary, Lib, Model string
	Source, Licenses   string // Licenses "": do not collect them
}

func main() {
	var in inputs
	flag.StringVar(&in.Lib, "lib", "", "`directory` of the native libraries")
	flag.StringVar(&in.Model, "model", "", "`directory` of the model")
	flag.StringVar(&in.Source, "source", "", "`directory` of the repository that the binary was built from")
	flag.StringVar(&in.Licenses, "licenses", "", "`directory` that the license texts of the Go modules are copied to")
	flag.Parse()
	in.Binary = flag.Arg(0)
	if err := run(context.Background(), os.Stdout, in); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, in inputs) error {
	if in.Binary == "" || in.Lib == "" || in.Model == "" {
		return errors.New("specify the binary, -lib and -model")
	}
	if (in.Licenses == "") != (in.Source == "") {
		return errors.New("specify both -source and -licenses, or neither")
	}
	info, err := buildinfo.ReadFile(in.Binary)
	if err != nil {
		return err
	}
	if in.Licenses != "" {
		if err := collectLicenses(ctx, info, in.Source, in.Licenses); err != nil {
			return err
		}
	}
	var kinds map[string]string // unknown without -licenses
	if in.Licenses != "" {
		names := []string{"std"}
		for _, dep := range info.Deps {
			names = append(names, dep.Path)
		}
		if kinds, err = licenseKinds(os.DirFS(in.Licenses), names); err != nil {
			return err
		}
	}
	return writeBOM(out, info, kinds, in)
}

// writeBOM prints the bill of materials; kinds are the licenses of the modules by path.
func writeBOM(out io.Writer, info *buildinfo.BuildInfo, kinds map[string]string, in inputs) error {
	bom := cdx.NewBOM()
	root := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: "assay", BOMRef: "assay",
		Version: info.Main.Version, PackageURL: "pkg:golang/" + info.Main.Path + "@" + info.Main.Version,
	}
	bom.Metadata = &cdx.Metadata{Component: &root}
	components := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), BOMRef: "std",
		Licenses: licensesOf(kinds["std"]),
	}}
	for _, dep := range info.Deps {
		// A replaced module is a patched copy: it keeps its name and version.
		c := cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: dep.Path, Version: dep.Version,
			PackageURL: "pkg:golang/" + dep.Path + "@" + dep.Version, BOMRef: dep.Path,
			Licenses: licensesOf(kinds[dep.Path]),
		}
		if dep.Replace != nil {
			c.Modified = new(true)
		}
		var err error
		if c.Hashes, err = moduleSum(dep.Sum); err != nil {
			return fmt.Errorf("%s: %w", dep.Path, err)
		}
		components = append(components, c)
	}
	native, err := fileComponents(in.Lib, cdx.ComponentTypeLibrary)
	if err != nil {
		return err
	}
	weights, err := fileComponents(in.Model, cdx.ComponentTypeData)
	if err != nil {
		return err
	}
	components = append(components, native...)
	components = append(components, cdx.Component{
		Type: cdx.ComponentTypeMachineLearningModel, Name: filepath.Base(in.Model), BOMRef: "model",
		Version: modelVersion(in.Model), Components: &weights,
	})
	bom.Components = &components
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// licensesOf is an SPDX expression, or nothing if it is empty.
func licensesOf(expression string) *cdx.Licenses {
	if expression == "" {
		return nil
	}
	return &cdx.Licenses{{Expression: expression}}
}

// moduleSum turns a go.sum hash (h1:base64 of a SHA-256) into CycloneDX's.
// Modules that a directory replaces have none.
func moduleSum(sum string) (*[]cdx.Hash, error) {
	if sum == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(sum, "h1:"))
	if err != nil {
		return nil, err
	}
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(raw)}}, nil
}

// fileComponents lists the regular files of dir with their checksums.
func fileComponents(dir string, kind cdx.ComponentType) ([]cdx.Component, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []cdx.Component
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(text)
		out = append(out, cdx.Component{
			Type: kind, Name: e.Name(), BOMRef: filepath.Base(dir) + "/" + e.Name(),
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		})
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s contains no file", dir)
	}
	return out, nil
}

// modelVersion reads the version from the checkpoint's manifest.
func modelVersion(dir string) string {
	var manifest struct {
		Version string `json:"version"`
	}
	if text, err := os.ReadFile(filepath.Join(dir, "assay.json")); err == nil {
		_ = json.Unmarshal(text, &manifest) // then the version is unknown
	}
	return cmp.Or(manifest.Version, "unknown")
}
