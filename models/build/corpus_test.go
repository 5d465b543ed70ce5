package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/bag"
)

// The corpus has the format that its README describes, and no text twice.
func TestCorpus(t *testing.T) {
	forms := strings.Fields("quotation refusal negation fiction history medicine law news self reclaimed untargeted criticism dual-use safety technical support other")
	categories := strings.Fields("insult profanity hate sexism harassment threat sexual self-harm violent-wrongdoing wrongdoing unsafe-advice apology deception refusal")
	files, err := filepath.Glob("corpus/*/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	seen := map[string]string{}
	unique := func(file, text string) {
		t.Helper()
		require.NotEmpty(t, strings.TrimSpace(text), file)
		require.Empty(t, seen[text], "%s repeats %q", file, text)
		seen[text] = file
	}
	for _, name := range files {
		file, err := os.Open(name)
		require.NoError(t, err)
		defer file.Close()
		lines := bufio.NewScanner(file)
		for n := 0; lines.Scan(); n++ {
			var line corpusLine
			require.NoError(t, json.Unmarshal(lines.Bytes(), &line), "%s:%d", name, n+1)
			switch {
			case n == 0:
				require.NotContains(t, []string{line.Setting, line.Persona, line.Register, line.Style}, "", name)
			case line.Response != "":
				unique(name, line.Response)
				require.Contains(t, []bag.Label{bag.Compliant, bag.Violation}, line.Label, name)
				if line.Label == bag.Violation {
					require.Contains(t, categories, line.Category, "%s:%d", name, n+1)
					require.NotNil(t, line.Witness, "%s:%d", name, n+1)
				}
				if kind := filepath.Base(filepath.Dir(name)); kind == harmless || kind == document {
					require.Equal(t, bag.Compliant, line.Label, "%s:%d", name, n+1)
				}
				if line.V != "" {
					unique(name, line.V)
					require.Equal(t, 1, strings.Count(line.Response, line.After), "%s:%d", name, n+1)
					require.Contains(t, categoryAspect, line.Category, "%s:%d", name, n+1)
				}
			default:
				unique(name, line.V)
				unique(name, line.H)
				require.Contains(t, forms, line.Form, "%s:%d", name, n+1)
				category := strings.TrimRight(strings.TrimSuffix(filepath.Base(name), ".jsonl"), "-0123456789")
				require.True(t, slices.Contains(categories, category), name)
			}
		}
		require.NoError(t, lines.Err(), name)
	}
}

// A report groups the responses of a set by the fields that a bag file does not have.
func TestExamplesKeepTheirFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "test.jsonl")
	described := fields{Category: "insult", Form: "self", Spelling: "leet"}
	require.NoError(t, writeExamples(path, []example{
		{pairs, "", with(complies(), "", "One."), described}, {toxiGen, "", with(violates(hate), "", "Two."), fields{}},
	}, true))
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, `{"id":"pairs-00000","label":"compliant","response":"One.","category":"insult","form":"self","spelling":"leet"}
{"id":"toxigen-00001","labels":{"hate":"violation"},"response":"Two."}
`, string(text))
}
