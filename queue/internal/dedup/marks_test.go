package dedup

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func at(response, rewards, dead uint64) Mark {
	return Mark{Response: response, Results: map[string]uint64{"REWARDS": rewards, "DEAD": dead}}
}

func TestMarksBefore(t *testing.T) {
	var m Marks
	require.Nil(t, m.Before(1))
	for _, mark := range []Mark{at(0, 0, 0), at(10, 7, 1), at(20, 19, 1)} {
		require.True(t, m.Add(mark))
	}
	for response, want := range map[uint64]Mark{1: at(0, 0, 0), 10: at(0, 0, 0), 11: at(10, 7, 1), 20: at(10, 7, 1), 21: at(20, 19, 1), 900: at(20, 19, 1)} {
		require.Equal(t, want.Results, m.Before(response), response)
	}
}

func TestMarksAdd(t *testing.T) {
	for name, c := range map[string]struct {
		next Mark
		want []Mark
		adds bool
	}{
		"later":                              {at(30, 25, 2), []Mark{at(10, 7, 1), at(20, 19, 1), at(30, 25, 2)}, true},
		"nothing happened":                   {at(20, 19, 1), []Mark{at(10, 7, 1), at(20, 19, 1)}, false},
		"only results":                       {at(20, 20, 1), []Mark{at(10, 7, 1), at(20, 20, 1)}, true},
		"responses lost their end":           {at(15, 19, 1), []Mark{at(10, 7, 1), at(15, 19, 1)}, true},
		"a stream of results lost its end":   {at(30, 18, 1), []Mark{at(30, 18, 1)}, true},
		"the other one was created again":    {at(30, 25, 0), []Mark{at(30, 25, 0)}, true},
		"both ends were lost, at one moment": {at(5, 3, 1), []Mark{at(5, 3, 1)}, true},
	} {
		m := Marks{Marks: []Mark{at(10, 7, 1), at(20, 19, 1)}}
		require.Equal(t, c.adds, m.Add(c.next), name)
		require.Equal(t, c.want, m.Marks, name)
	}
}

// However many there are, the first and the latest are kept, in order.
func TestMarksAreThinned(t *testing.T) {
	var m Marks
	const n = 10_000
	for i := range uint64(n) {
		require.True(t, m.Add(at(i, i, 0)))
		require.LessOrEqual(t, len(m.Marks), maxMarks)
		require.Zero(t, m.Marks[0].Response)
	}
	for i := 1; i < len(m.Marks); i++ {
		require.Greater(t, m.Marks[i].Response, m.Marks[i-1].Response)
	}
	for i := range uint64(maxMarks / 2) {
		require.EqualValues(t, n-1-i, m.Marks[len(m.Marks)-1-int(i)].Response)
	}
}
