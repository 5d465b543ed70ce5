package encoder

import (
	"runtime"
	"syscall"
	"testing"
	"time"
)

// BenchmarkPrecisions compares the CPU time of one batch in fp32, bf16 and int8, in turns, so that others on the machine
// disturb all alike; of each the least is taken. ASSAY_BENCH_MODEL names a checkpoint folder with a tokenizer.
func BenchmarkPrecisions(b *testing.B) {
	dir := benchCheckpoint(b)
	r, err := NewRuntime(RuntimeOptions{Threads: 1, Device: "cpu"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.Close)
	needInt8(b, r)
	precisions := []Precision{FP32, BF16, Int8}
	models, least := map[Precision]*Model{}, map[Precision]time.Duration{}
	for _, p := range precisions {
		models[p], least[p] = loadModel(b, r, dir, p), time.Hour
	}
	batch, tokens := sentences(48, models[FP32].net.cfg.Vocab)
	runtime.GC()
	for b.Loop() {
		for _, p := range precisions {
			start := cpuTime(b)
			if _, err := models[p].Margins(batch); err != nil {
				b.Fatal(err)
			}
			least[p] = min(least[p], cpuTime(b)-start)
		}
	}
	for _, p := range precisions {
		b.ReportMetric(least[p].Seconds()*1e6/float64(tokens), string(p)+"-us/token")
	}
	b.ReportMetric(float64(least[BF16])/float64(least[Int8]), "int8/bf16")
	b.ReportMetric(float64(least[FP32])/float64(least[Int8]), "int8/fp32")
}

// cpuTime is what the process has used: with one libtorch thread, next to nothing but the model.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
