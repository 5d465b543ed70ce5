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
			kind := filepath.Base(filepath.Dir(name))
			switch {
			case n == 0:
				require.NotContains(t, []string{line.Setting, line.Persona, line.Register, line.Style}, "", name)
			case kind == conversation:
				oneOf := func(shared, v, h string) {
					require.Equal(t, []bool{shared == "", shared == ""}, []bool{v != "", h != ""}, "%s:%d", name, n+1)
				}
				oneOf(line.Prompt, line.VPrompt, line.HPrompt)
				oneOf(line.Response, line.V, line.H)
				unique(name, line.Prompt+line.VPrompt+"\n\n"+line.Response+line.V)
				unique(name, line.Prompt+line.HPrompt+"\n\n"+line.Response+line.H)
				require.Contains(t, categoryAspect, line.Category, "%s:%d", name, n+1)
				require.Contains(t, forms, line.Form, "%s:%d", name, n+1)
			case line.Response != "":
				unique(name, line.Response)
				require.Contains(t, []bag.Label{bag.Compliant, bag.Violation}, line.Label, name)
				if line.Label == bag.Violation {
					require.Contains(t, categories, line.Category, "%s:%d", name, n+1)
					require.NotNil(t, line.Witness, "%s:%d", name, n+1)
				}
				if kind == harmless || kind == document {
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

// A pair of conversations shares its prompt or its response, and only the first one violates.
func TestConversations(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "101.jsonl"), []byte(`{"setting":"s","persona":"p","register":"r","style":"y"}
{"prompt":"P","v":"V","h":"H","category":"insult","form":"self"}
{"response":"R","v_prompt":"A","h_prompt":"B","category":"unsafe-advice","form":"other"}
`), 0o644))
	examples, err := readConversations(dir)
	require.NoError(t, err)
	var got []string
	for _, e := range examples {
		require.Equal(t, "101", e.group)
		got = append(got, strings.Join([]string{string(e.bag.Verdict()), e.bag.Prompt, e.bag.Response, e.fields.Category}, " "))
	}
	require.Equal(t, []string{"violation P V insult", "compliant P H insult", "violation A R unsafe-advice", "compliant B R unsafe-advice"}, got)
	twins := comparedTwins(conversation, examples, 1)
	require.Len(t, twins, 4)
	require.Equal(t, twins[0].bag.Comparison, twins[1].bag.Comparison)
	require.NotEqual(t, twins[0].bag.Comparison, twins[2].bag.Comparison)
}
