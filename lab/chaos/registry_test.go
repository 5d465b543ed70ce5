package chaos_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"assay/queue/registry"
)

// registryInput is an operation on the current version.
type registryInput struct {
	kind    string // "promote", "rollback" or "read"
	version string // to promote
}

// registryOutput is its reply.
type registryOutput struct {
	known    bool
	version  string
	previous string // joined by spaces; of promotions and rollbacks
}

// registryState is the current version and those before it, joined by spaces.
type registryState struct{ version, previous string }

// maxPrevious is how many earlier versions are kept for rollbacks.
const maxPrevious = 20

// registryModel is what promotions, rollbacks and reads do one after the other.
func registryModel(initial string) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return registryState{version: initial} },
		Step: func(state, input, output any) (bool, any) {
			s, in, out := state.(registryState), input.(registryInput), output.(registryOutput)
			switch in.kind {
			case "promote":
				if s.version != in.version {
					previous := append(strings.Fields(s.previous), s.version)
					s.previous = strings.Join(previous[max(0, len(previous)-maxPrevious):], " ")
					s.version = in.version
				}
			case "rollback":
				previous := strings.Fields(s.previous)
				if len(previous) == 0 {
					return !out.known, s
				}
				s.version = previous[len(previous)-1]
				s.previous = strings.Join(previous[:len(previous)-1], " ")
			case "read":
				return out.version == s.version, s
			}
			return !out.known || out.version == s.version && out.previous == s.previous, s
		},
		DescribeOperation: func(input, output any) string {
			in, out := input.(registryInput), output.(registryOutput)
			return in.kind + " " + in.version + " -> " + out.version + " (" + out.previous + ")"
		},
	}
}

// operate records an operation on the current version. One without a known result may take effect at any later time, or
// never; a read without one says nothing.
func (h *history) operate(client int, in registryInput, call int64, out registryOutput) {
	end := h.now()
	if !out.known {
		if in.kind == "read" {
			return
		}
		end = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.registry = append(h.registry, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
	h.numbers["registry: "+in.kind]++
}

// linearizable reports whether some order of the operations explains their results. If that is unknown after a timeout,
// it tries again with the next one.
func (h *history) linearizable(initial string, timeouts ...time.Duration) (result porcupine.CheckResult) {
	h.mu.Lock()
	operations := slices.Clone(h.registry)
	h.mu.Unlock()
	for _, timeout := range timeouts {
		if result = porcupine.CheckOperationsTimeout(registryModel(initial), operations, timeout); result != porcupine.Unknown {
			break
		}
		h.note("the check of %d operations on the current version has no result after %v", len(operations), timeout)
	}
	return result
}

// agrees checks that promotions, rollbacks and reads have an order that explains their results. A history that could not
// be checked fails.
func (h *history) agrees(initial string, timeouts ...time.Duration) {
	switch h.linearizable(initial, timeouts...) {
	case porcupine.Ok:
	case porcupine.Unknown:
		h.violate("whether the registry is linearizable is unknown after %v: %s", timeouts, h.operations())
	default:
		h.lost(loss{what: "promotion", streams: []string{registry.StreamState}, about: aboutCurrent}, "the registry is not linearizable: %s", h.operations())
	}
}

func TestRegistryModel(t *testing.T) {
	h := newHistory(nil)
	step := func(in registryInput, out registryOutput) { h.operate(0, in, h.now(), out) }
	step(registryInput{kind: "read"}, registryOutput{known: true, version: "a"})
	step(registryInput{kind: "promote", version: "b"}, registryOutput{known: true, version: "b", previous: "a"})
	step(registryInput{kind: "promote", version: "c"}, registryOutput{}) // it may have happened
	step(registryInput{kind: "read"}, registryOutput{known: true, version: "c"})
	step(registryInput{kind: "rollback"}, registryOutput{known: true, version: "b", previous: "a"})
	require.Equal(t, porcupine.Ok, h.linearizable("a", time.Minute))
	step(registryInput{kind: "read"}, registryOutput{known: true, version: "c"}) // c was replaced
	require.Equal(t, porcupine.Illegal, h.linearizable("a", time.Minute))
	h.agrees("a", time.Minute)
	require.Len(t, h.losses, 1)
}

// A history that could not be checked in time fails, and is printed.
func TestUnknownOrderFails(t *testing.T) {
	h := newHistory(nil)
	for i := range 60 { // promotions that may have happened, in any order
		h.operate(i, registryInput{kind: "promote", version: fmt.Sprint("v", i)}, 0, registryOutput{})
	}
	h.operate(60, registryInput{kind: "read"}, h.now(), registryOutput{known: true, version: "none of them"})
	h.agrees("a", time.Millisecond, 2*time.Millisecond)
	require.Len(t, h.violations, 1)
	require.Contains(t, h.violations[0], "unknown after [1ms 2ms]")
	require.Contains(t, h.violations[0], "promote v59")
	require.Len(t, h.notes(), 2, "each attempt is noted")
}

// operations are the operations on the current version in the order of their replies.
func (h *history) operations() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var b strings.Builder
	describe := registryModel("").DescribeOperation
	for _, op := range h.registry {
		fmt.Fprintf(&b, "\n  client %d, %.3f s to %.3f s: %s", op.ClientId, time.Duration(op.Call).Seconds(),
			time.Duration(op.Return).Seconds(), describe(op.Input, op.Output))
	}
	return b.String()
}
