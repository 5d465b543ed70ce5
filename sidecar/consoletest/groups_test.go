package consoletest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGroups(t *testing.T) {
	p := serveAndKeep(t)
	var rewards []float64
	for step := 1; step <= 3; step++ {
		responses := []string{advice, "Drink some water.", insult, "Rest for an hour, and see a doctor if it does not get better."}
		var items []item
		for i, text := range responses {
			items = append(items, item{ID: fmt.Sprintf("s%d-%d", step, i), Prompt: "I have a headache. What can I do?", Response: text, Metadata: map[string]any{"step": step}})
		}
		rewards = scoreItems(t, p, items...)
	}
	scoreItems(t, p, item{ID: "f1", Prompt: "When?", Response: "At noon."}, item{ID: "f2", Prompt: "When?", Response: "At noon."}, item{ID: "alone", Prompt: "Why?", Response: "Because."})
	b := browse(t, p)
	b.open("groups")
	b.see("#view", "4 groups of at least two responses")
	b.see("tbody tr", "0.000, no signal")
	b.choose("#view select", "spread")
	b.tabTo(`[data-group]`)
	b.keys(" ")
	b.see("#view h2", "Group: I have a headache.")
	b.await(`document.querySelectorAll('.member').length === 4`)

	mean := (rewards[0] + rewards[1] + rewards[2] + rewards[3]) / 4
	for i, reward := range rewards {
		card := fmt.Sprintf(`[...document.querySelectorAll('.member')].find((e) => e.ariaLabel.endsWith('-%d')).innerText`, i)
		require.Contains(t, evaluate[string](b, card), fmt.Sprintf("Advantage\n%+.3f", reward-mean))
	}
	require.Equal(t, "true", evaluate[string](b, `document.querySelector('[data-group]').getAttribute('aria-pressed')`))
	require.NotEmpty(t, evaluate[string](b, `document.activeElement.dataset.group`), "the focus stays on the group")
	b.see("figcaption", "From step 1 to 3 the mean reward changes from")
	b.see("tbody tr", insult) // the witness of six responses
	require.Equal(t, "6", evaluate[string](b, fmt.Sprintf(`[...document.querySelectorAll('tr')].find((r) => r.cells[0]?.innerText === %q).cells[1].innerText`, insult)))
	b.requireAccessibleInAll("groups")
	b.screenshot("groups")
}
