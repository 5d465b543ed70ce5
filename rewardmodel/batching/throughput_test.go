package batching

import (
	"testing"
	"time"
)

func TestTextCost(t *testing.T) {
	var c textCost
	if got := c.of(1000); got != 1 {
		t.Errorf("%d tokens before anything was read, want 1", got)
	}
	for range 50 {
		c.observe(400, 100)
		c.observe(0, 30) // a sentence of a live session
	}
	if got := c.of(1000); got < 249 || got > 250 {
		t.Errorf("1,000 bytes are %d tokens, want those of 4 bytes each", got)
	}
}

func TestThroughput(t *testing.T) {
	var tp Throughput
	if tp.TimeFor(100) != 0 || tp.capacity(time.Second) < 1<<30 {
		t.Error("a throughput without a measurement limits something")
	}
	tp.Observe(100, 0)
	if tp.TimeFor(100) != 0 {
		t.Errorf("nothing took %v", tp.TimeFor(100))
	}
	tp = Throughput{}
	for range 100 {
		tp.Observe(10, 10*time.Millisecond) // one by one, while idle
	}
	for range 60 {
		tp.Observe(10_000, time.Second) // full batches
	}
	if got := tp.TimeFor(20_000); got < 1990*time.Millisecond || got > 2100*time.Millisecond {
		t.Errorf("20,000 tokens take %v", got)
	}
	if got := tp.capacity(time.Minute); got < 590_000 || got > 600_000 {
		t.Errorf("%d tokens in a minute", got)
	}
	cold := Throughput{warmUp: 100}
	cold.Observe(40, time.Minute) // the first call
	if cold.TimeFor(100) != 0 || cold.capacity(time.Second) < 1<<30 {
		t.Error("the first calls limit something")
	}
	cold.Observe(60, time.Second)
	if cold.TimeFor(100) == 0 || cold.capacity(time.Second) > 100 {
		t.Error("nothing is limited after the first calls")
	}
	tp.Observe(1, 10_000*time.Hour)
	if got := tp.TimeFor(1 << 40); got <= 0 {
		t.Errorf("an overflow: %v", got)
	}
}
