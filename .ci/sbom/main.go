// Command sbom prints the bill of materials of an image of assay as CycloneDX
// JSON: the Go modules that are in the binary, the native libraries beside it
// and the model.
//
//	go run . -lib DIR -model DIR BINARY
//
// The packages of the base image are not in it: a scanner reads those from the
// image.
package main

import (
	"cmp"
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

func main() {
	lib := flag.String("lib", "", "folder of the native libraries")
	model := flag.String("model", "", "folder of the model")
	flag.Parse()
	if err := run(os.Stdout, flag.Arg(0), *lib, *model); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, binary, lib, model string) error {
	if binary == "" || lib == "" || model == "" {
		return errors.New("name the binary, -lib and -model")
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	bom := cdx.NewBOM()
	root := cdx.Component{
		Type: cdx.ComponentTypeApplication, Name: "assay", BOMRef: "assay",
		Version: info.Main.Version, PackageURL: "pkg:golang/" + info.Main.Path + "@" + info.Main.Version,
	}
	bom.Metadata = &cdx.Metadata{Component: &root}
	components := []cdx.Component{{
		Type: cdx.ComponentTypeLibrary, Name: "std", Version: strings.TrimPrefix(info.GoVersion, "go"),
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"), BOMRef: "std",
	}}
	for _, dep := range info.Deps {
		// A replaced module is itself, patched: it keeps its name and version.
		c := cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: dep.Path, Version: dep.Version,
			PackageURL: "pkg:golang/" + dep.Path + "@" + dep.Version, BOMRef: dep.Path,
		}
		if dep.Replace != nil {
			c.Modified = new(true)
		}
		if c.Hashes, err = moduleSum(dep.Sum); err != nil {
			return fmt.Errorf("%s: %w", dep.Path, err)
		}
		components = append(components, c)
	}
	native, err := files(lib, cdx.ComponentTypeLibrary)
	if err != nil {
		return err
	}
	weights, err := files(model, cdx.ComponentTypeData)
	if err != nil {
		return err
	}
	components = append(components, native...)
	components = append(components, cdx.Component{
		Type: cdx.ComponentTypeMachineLearningModel, Name: filepath.Base(model), BOMRef: "model",
		Version: modelVersion(model), Components: &weights,
	})
	bom.Components = &components
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}
	bom.Dependencies = &[]cdx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	return cdx.NewBOMEncoder(out, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// moduleSum turns a go.sum hash (h1:base64 of a SHA-256) into CycloneDX's.
// Modules that were replaced by a folder have none.
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

// files lists the regular files of dir with their checksums.
func files(dir string, kind cdx.ComponentType) ([]cdx.Component, error) {
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
		return nil, fmt.Errorf("%s holds no file", dir)
	}
	return out, nil
}

// modelVersion is what the checkpoint says of itself.
func modelVersion(dir string) string {
	var manifest struct {
		Version string `json:"version"`
	}
	if text, err := os.ReadFile(filepath.Join(dir, "assay.json")); err == nil {
		_ = json.Unmarshal(text, &manifest) // unknown is then the answer
	}
	return cmp.Or(manifest.Version, "unknown")
}
