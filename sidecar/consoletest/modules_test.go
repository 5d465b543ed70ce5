package consoletest_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/sidecar/processtest"
)

// What the modules compute, without a page.
func TestModules(t *testing.T) {
	chromium(t)
	b := browse(t, processtest.Serve(t, shippedModel, t.TempDir(), "--nats", "off"))
	b.do(visible(`#try`))
	for _, c := range []struct{ module, call, want string }{
		{"statistics", `m.mean([1, 2, 6])`, `3`},
		{"statistics", `m.deviation([1, 2, 3])`, `1`},
		{"statistics", `m.deviation([1])`, `null`},
		{"statistics", `m.quantile(m.sorted([3, 1, 2]), 0.25)`, `1.5`},
		{"statistics", `m.quantile([], 0.5)`, `null`},
		{"statistics", `m.histogram([0, 0.49, 0.5, 1], 2)`, `[2,2]`},
		{"witnessphrases", `m.normalized('  "You   FOOL!!" ')`, `"you fool"`},
		{"witnessphrases", `m.witnessPhrases([{ witness: 'You fool.', group: 'a', compliant: false, compliance: 0.2 },
			{ witness: 'you fool', group: 'b', compliant: true, compliance: 0.6 }, { witness: 'Once.' }, {}])`,
			`[{"phrase":"You fool.","responses":2,"groups":2,"violations":1,"meanReward":0.4}]`},
		{"groups", `m.groupsOf([{ group: 'g', step: 1, reward: 2, compliance: 0.9, scale: 'logit', compliant: true, sequence: 1 },
			{ group: 'g', step: 1, reward: 0, compliance: 0.5, scale: 'logit', compliant: true, sequence: 2 },
			{ group: 'g', step: 2, reward: 0, compliance: 0.5, scale: 'logit' }]).map((g) => [g.scale, g.mean, g.low, g.high, g.members.length])`,
			`[["logit",1,0,2,2]]`}, // advantages are those of one step
		{"groups", `m.groupsOf([{ group: 'g', reward: 2, compliance: 0.9, scale: 'logit' }, { group: 'g', reward: 0.5, compliance: 0.5, scale: 'compliance' }]).map((g) => [g.scale, g.mean])`,
			`[["compliance",0.7]]`},
		{"losscurve", `((c) => [c.querySelector('figcaption').textContent, c.querySelectorAll('polyline').length])(m.lossCurve([{ step: 50, loss: 0.5 }, { step: 10, loss: 0.7 }, {}]))`,
			`["The loss changes from 0.700 to 0.500 in 50 steps.",1]`},
		{"losscurve", `m.lossCurve([{ step: 1, loss: 1 }])`, `null`},
		{"labelitems", `((i) => [i.labels, i.label, i.messages.length, i.response])(m.toItem({ id: 'x', aspect: 'refusal', messages: [{ role: 'assistant', content: 'No.' }] }, 'violation', 'anna'))`,
			`[{"refusal":"violation"},null,1,null]`},
		{"argilla", `((r) => [r.fields, r.metadata.form, r.responses, m.fromRecords([r])])(m.toRecord({ id: 'x', uncertainty: 0.25, violation: 0.9, threshold: 0.5, model: 'v1', reason: 'random', messages: [{ role: 'user', content: 'Hi' }] }))`,
			`[{"prompt":"","response":"user: Hi"},"messages",{},[]]`},
		// The text of a conversation is one string in other tools: only its id identifies it.
		{"labelitems", `m.importedItem({ id: 'n', rater: 'r', fields: { response: 'user: Hi' }, responseId: m.responseIdOf({ response_id: 'x', form: 'messages' }) }, { response: 'response', aspect: '' }, 'compliant')`,
			`{"id":"x","rater":"r","label":"compliant","response_id":"x"}`},
		{"labelstudio", `m.fromTasks([{ id: 7, data: { text: 'a' }, annotations: [{ completed_by: 3, result: [{ type: 'choices', from_name: 'q', value: { choices: ['a', 'b'] } }] }] }])`,
			`[{"id":"task-7","question":"q","value":"a, b","rater":"label-studio:3","fields":{"text":"a"},"responseId":""}]`},
	} {
		got := evaluate[string](b, fmt.Sprintf(`import('/console/assets/%s.js').then((m) => JSON.stringify(%s))`, c.module, c.call))
		require.Equal(t, c.want, got, c.call)
	}
}
