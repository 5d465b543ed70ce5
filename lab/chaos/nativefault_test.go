package chaos_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/queue/queuetest/procmem"
	"assay/rewardmodel/checkpoint"
	"assay/sidecar/processtest"
)

// Functions of libtorch, with the beginnings of their names: at::empty, which every batch calls, and one that only throws an
// exception (c10::throwNullDataPtrError).
const (
	library, createTensor = "libtorch_cpu.so", "_ZN2at4_ops19empty_memory_format4callE"
	core, throw           = "libc10.so", "_ZN3c1021throwNullDataPtrErrorEv"
)

// invalidAccess is code of x86-64 that writes to the address 0.
var invalidAccess = []byte{
	0x31, 0xc0, // xor eax, eax
	0x89, 0x00, // mov [rax], eax
}

// jumpCode is code of x86-64 that continues elsewhere.
func jumpCode(to uint64) []byte {
	code := binary.LittleEndian.AppendUint64([]byte{0x48, 0xb8}, to) // mov rax, to
	return append(code, 0xff, 0xe0)                                  // jmp rax
}

// normWeights are the weights of the first LayerNorm of a checkpoint, as a process has them in its memory.
func normWeights(t *testing.T, dir string) (weights []byte) {
	t.Helper()
	c, err := checkpoint.Open(dir)
	require.NoError(t, err)
	values, err := c.Float32("embeddings.LayerNorm.weight")
	require.NoError(t, err)
	for _, v := range values {
		weights = binary.LittleEndian.AppendUint32(weights, math.Float32bits(v))
	}
	return weights
}

// nans is what replaces weights.
func nans(weights []byte) []byte {
	return bytes.Repeat([]byte{0x5a, 0xa5, 0xff, 0x7f}, len(weights)/4)
}

// spoil makes the outputs of the model NaN until the weights are restored, where the memory is still theirs.
func (r *replica) spoil(weights []byte) (restore func()) {
	r.t.Helper()
	memory := r.memory()
	r.at.life.change()
	var at []int64
	require.NoError(r.t, memory.Suspended(func() (_ bool, err error) {
		at, err = memory.Find(weights)
		for i := 0; err == nil && i < len(at); i++ {
			_, err = memory.WriteAt(nans(weights), at[i])
		}
		return true, err
	}))
	require.NotEmpty(r.t, at, "the process does not have the weights")
	return func() {
		r.t.Helper()
		require.NoError(r.t, memory.Suspended(func() (bool, error) {
			present := make([]byte, len(weights))
			for _, place := range at {
				if _, err := memory.ReadAt(present, place); err != nil || !bytes.Equal(present, nans(weights)) {
					continue // another version has been loaded meanwhile
				}
				if _, err := memory.WriteAt(weights, place); err != nil {
					return false, err
				}
			}
			return true, nil
		}))
		require.NoError(r.t, memory.Close())
		r.at.life.change()
	}
}

// breakCode makes the next batch access an invalid address in libtorch.
func (r *replica) breakCode() {
	r.t.Helper()
	r.down()
	memory := r.memory()
	overwrite(r.t, memory, invalidAccess)
	require.NoError(r.t, memory.Close())
}

// throw makes libtorch throw an exception whenever it creates a tensor, until its code is restored.
func (r *replica) throw() (restore func()) {
	r.t.Helper()
	memory := r.memory()
	at, _, err := memory.Function(core, throw)
	require.NoError(r.t, err)
	r.at.life.change()
	code := overwrite(r.t, memory, jumpCode(at))
	return func() {
		r.t.Helper()
		overwrite(r.t, memory, code)
		require.NoError(r.t, memory.Close())
		r.at.life.change()
	}
}

// overwrite replaces the first instructions of the function of libtorch that creates a tensor, and returns what was there.
func overwrite(t *testing.T, memory *procmem.Process, code []byte) []byte {
	t.Helper()
	begin, _, err := memory.Function(library, createTensor)
	require.NoError(t, err)
	before := make([]byte, len(code))
	_, err = memory.ReadAt(before, int64(begin))
	require.NoError(t, err)
	require.NoError(t, memory.Suspended(func() (bool, error) {
		if inside, err := memory.Executes(begin, begin+uint64(len(code))); inside || err != nil {
			return false, err
		}
		_, err := memory.WriteAt(code, int64(begin))
		return true, err
	}))
	return before
}

// awaitCrash waits until the process has ended, but not for long: if all scores are cached, it needs no batch.
func (r *replica) awaitCrash(timeout time.Duration) (crashed bool) {
	r.t.Helper()
	select {
	case <-r.process.Done:
		require.Contains(r.t, r.process.Output(), "a fault in native code: SIGSEGV")
		crashed = true
	case <-time.After(timeout):
	}
	r.kill()
	return crashed
}

func (r *replica) memory() *procmem.Process {
	r.t.Helper()
	memory, err := procmem.Open(r.process.Cmd.Process.Pid)
	require.NoError(r.t, err)
	return memory
}

// tryMemory reports why the memory of a process cannot be changed.
func tryMemory(t *testing.T) error {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("no code for %s: %w", runtime.GOARCH, errors.ErrUnsupported)
	}
	child := exec.Command("sleep", "60")
	require.NoError(t, child.Start())
	memory, err := procmem.Open(child.Process.Pid)
	if err == nil {
		err = memory.Close()
	}
	require.NoError(t, child.Process.Kill())
	_ = child.Wait() // killed
	return err
}

// The faults do what schedules need: a model whose weights are NaN, or whose library throws exceptions, fails, and computes
// the same rewards as before when that has ended; native code that accesses an invalid address ends the process.
func TestNativeFaults(t *testing.T) {
	if err := tryMemory(t); err != nil {
		t.Skip(err)
	}
	dir := processtest.TinyModel(t, nil)
	m := &models{texts: []string{"You fool.", "Have a good trip."}}
	r := &replica{t: t, flags: processtest.Serving(dir, t.TempDir(), "--nats", "off", "--cache-bytes", "0", "--log-format", "json")}
	require.True(t, r.start())
	at, _ := r.now()
	score := func() (scores, error) { return m.score(t.Context(), http.DefaultClient, at.http, "") }
	want, err := score()
	require.NoError(t, err)
	for _, begin := range []func() (restore func()){func() func() { return r.spoil(normWeights(t, dir)) }, r.throw} {
		before := at.life.changes()
		restore := begin()
		require.True(t, at.life.failedSince(before))
		_, err = score()
		require.EqualError(t, err, "500 Internal Server Error")
		restore()
		require.False(t, at.life.failedSince(at.life.changes()))
		got, err := score()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}

	r.breakCode()
	_, err = score()
	require.EqualError(t, err, "503 Service Unavailable")
	require.True(t, r.awaitCrash(startTimeout))

	// A model that does not recover needs another process.
	require.True(t, r.start())
	at, _ = r.now()
	_, err = score()
	require.NoError(t, err)
	r.spoil(normWeights(t, dir))
	require.Eventually(t, func() bool {
		_, err := score()
		return err != nil && err.Error() != "500 Internal Server Error"
	}, startTimeout, 100*time.Millisecond)
	require.NotZero(t, r.process.Wait(t))
	require.Contains(t, tail(r.process.Log)[len(tail(r.process.Log))-1], "it has failed also on what it computed before")
}
