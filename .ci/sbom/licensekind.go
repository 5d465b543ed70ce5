package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// kinds recognizes licenses by words that only their texts contain, the first match
// counts. An empty id is a license that assay must not link: its terms would extend to
// the binary.
var kinds = []struct{ words, id string }{
	{"gnu affero general public license version", ""},
	{"gnu general public license version", ""},
	{"gnu lesser general public license version", ""},
	{"server side public license", ""},
	{"apache license version 2.0, january 2004", "Apache-2.0"},
	{"mozilla public license version 2.0", "MPL-2.0"},
	{"mozilla public license, version 2.0", "MPL-2.0"},
	{"permission is hereby granted, free of charge", "MIT"},
	{"neither the name of", "BSD-3-Clause"},
	{"redistribution and use in source and binary forms", "BSD-2-Clause"},
	{"permission to use, copy, modify, and/or distribute this software", "ISC"},
	{"permission to use, copy, modify, and distribute this software", "ISC"},
	{"this is free and unencumbered software released into the public domain", "Unlicense"},
	{"cc0 1.0 universal", "CC0-1.0"},
}

// licenseKind returns the SPDX ids of the license texts that copyLicenses wrote to dir
// for a module, joined by AND. It fails if none is recognized, and if one at the top is a
// license that assay must not link.
func licenseKind(dir fs.FS, name string) (string, error) {
	var ids []string
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return "", fmt.Errorf("license of %s: %w", name, err)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		data, err := fs.ReadFile(dir, entry.Name())
		if err != nil {
			return "", fmt.Errorf("license of %s: %w", name, err)
		}
		id, known := kindOf(string(data))
		if known && id == "" {
			return "", fmt.Errorf("%s: %s is a license whose terms extend to the binary: do not link the module", name, entry.Name())
		}
		if known && !strings.Contains(" "+strings.Join(ids, " ")+" ", " "+id+" ") {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", fmt.Errorf("%s: no known license in its texts: read them, and add the license to kinds", name)
	}
	return strings.Join(ids, " AND "), nil
}

func kindOf(text string) (id string, known bool) {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	for _, k := range kinds {
		if strings.Contains(text, k.words) {
			return k.id, true
		}
	}
	return "", false
}

// licenseKinds returns the licenses of the linked modules by path.
func licenseKinds(licenses fs.FS, names []string) (map[string]string, error) {
	ids, failures := map[string]string{}, error(nil)
	for _, name := range names {
		dir, err := fs.Sub(licenses, path.Join("go", filepath.ToSlash(name)))
		if err != nil {
			return nil, err
		}
		id, err := licenseKind(dir, name)
		failures = errors.Join(failures, err)
		ids[name] = id
	}
	return ids, failures
}
