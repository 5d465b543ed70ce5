package feedback_test

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

const million = 1_000_000

// filled returns an index of a million records, with ratersEach of each response.
func filled(ratersEach int) *feedback.Index {
	x := feedback.NewIndex()
	prompt := feedback.Record{Bag: bag.Bag{Prompt: "Why?"}}.Mark(0).Group
	for i := range uint64(million) {
		var id, rater [8]byte
		binary.BigEndian.PutUint64(id[:], i/uint64(ratersEach))
		binary.BigEndian.PutUint64(rater[:], i%uint64(ratersEach))
		m := mark(string(id[:]), string(rater[:]), i%3 == 0, 1, i+1)
		m.Group = m.ID // a separate prompt
		m.Group[0] = prompt[0]
		x.Apply(m)
	}
	return x
}

func BenchmarkIndex(b *testing.B) {
	for name, ratersEach := range map[string]int{"OneRater": 1, "ThreeRaters": 3} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				x := filled(ratersEach)
				b.ReportMetric(float64(heap()-before)/million, "bytes/record")
				runtime.KeepAlive(x)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/million, "ns/record")
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

func BenchmarkCheck(b *testing.B) {
	x := filled(1)
	m := mark("known to nobody", "", true, 1, 0)
	for b.Loop() {
		x.Check(m)
	}
}

func BenchmarkStats(b *testing.B) {
	x := filled(1)
	for b.Loop() {
		x.Stats(feedback.Split{Share: 0.2}, 0)
	}
}

func BenchmarkBags(b *testing.B) {
	x := filled(1)
	for b.Loop() {
		for range x.Bags(feedback.Split{Share: 0.2}) {
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"items":[`)
	for i := range 1000 {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"id":"response","label":"violation","rater":"ann","time":"2026-01-01T00:00:00Z","response":"`...)
		for range 20 {
			body = append(body, `Of course, I can help you with that. `...)
		}
		body = append(body, `"}`...)
	}
	body = append(body, `]}`...)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := feedback.Decode(body, feedback.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMaxSenderShare chooses the bags of a training run among 100,000 labels, and
// counts them for the status, without a limit on the senders and with one that omits
// most: 95 % of the labels are of one of 20 senders.
func BenchmarkMaxSenderShare(b *testing.B) {
	const labels = 100_000
	x := feedback.NewIndex()
	for i := range uint64(labels) {
		var id [8]byte
		binary.BigEndian.PutUint64(id[:], i)
		sender := uint64(0)
		if i%20 == 0 {
			sender = 1 + i/20%19
		}
		m := mark(string(id[:]), "", i%3 == 0, 1, i+1)
		binary.BigEndian.PutUint64(m.Sender[:], sender+1)
		x.Apply(m)
	}
	for _, share := range []float64{1, 0.1} {
		split := feedback.Split{Share: 0.2, MaxSenderShare: share}
		b.Run(fmt.Sprintf("Choose/share=%v", share), func(b *testing.B) {
			kept := 0
			for b.Loop() {
				var train []feedback.Bag
				for bag := range x.Bags(split) {
					if !bag.HeldOut {
						train = append(train, bag)
					}
				}
				kept = len(feedback.LimitSenders(train, share, labels))
			}
			b.ReportMetric(float64(kept), "kept")
		})
		b.Run(fmt.Sprintf("Stats/share=%v", share), func(b *testing.B) {
			for b.Loop() {
				x.Stats(split, 0)
			}
		})
	}
}
