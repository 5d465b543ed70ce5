package encoder

/*
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
void at_set_num_threads(int n);
void at_manual_seed(int64_t seed);
static void name_thread(void) { pthread_setname_np(pthread_self(), "libtorch"); }

// opens reports whether a library can be loaded, and loads it.
static int opens(const char *library) { return dlopen(library, RTLD_LAZY | RTLD_GLOBAL) != NULL; }

// libtorch_path is the file of libtorch, once it is loaded; NULL if it is unknown.
static const char *libtorch_path(void) {
	Dl_info info;
	void *function = dlsym(RTLD_DEFAULT, "aoti_torch_get_data_ptr"); // of its stable interface
	return function && dladdr(function, &info) ? info.dli_fname : NULL;
}

static void count(void *started) { atomic_fetch_add((_Atomic int *)started, 1); }

// start_threads starts the threads of OpenMP and returns their number: n, or fewer. oneDNN divides a multiplication by the
// number that was requested: with fewer, parts of the result would remain undefined.
static int start_threads(int n) {
	void (*set_dynamic)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "omp_set_dynamic");
	void (*parallel)(void (*)(void *), void *, unsigned, unsigned) =
		(void (*)(void (*)(void *), void *, unsigned, unsigned))dlsym(RTLD_DEFAULT, "GOMP_parallel");
	_Atomic int started = 0;
	if (set_dynamic) set_dynamic(0); // with OMP_DYNAMIC the number would depend on the load of the machine
	if (parallel) parallel(count, &started, (unsigned)n, 0);
	return started > 0 && started < n ? started : n;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/libtch"
	"github.com/sugarme/gotch/ts"

	"assay/internal/nativefault"
	"assay/rewardmodel"
	"assay/rewardmodel/encoder/packedweights"
)

// ErrClosed is returned by every call on a Runtime, or on a model that it runs, after Close.
var ErrClosed = errors.New("encoder: the libtorch runtime is closed")

// Runtime owns libtorch: one operating-system thread that makes every call into it, and that computes all scores. It loads
// libtorch before the first call into it: a model in panels needs none.
//
// libtorch keeps its last error and its gradient mode per thread, while goroutines migrate between threads. All calls
// therefore run on a single goroutine that is permanently locked to its thread. Models and learners of a Runtime share
// that thread and stop with it.
//
// After a fault in native code, that of libtorch or any other, every call returns an error, also one in progress: the
// *nativefault.FaultError, or rewardmodel.ErrClosed if RuntimeOptions.Watch has got that.
type Runtime struct {
	device    gotch.Device
	threads   int               // per operation on the CPU
	limit     float64           // mean change that int8 may make; see RuntimeOptions.PrecisionLimit
	packedDir packedweights.Dir // RuntimeOptions.PackedDir
	warn      func(error)
	watch     CallWatcher // nil: none

	// These belong to the thread.
	loaded  bool          // libtorch is
	linear  bool          // it has linear layers in oneDNN's layout
	scratch alignedMemory // of panels

	work chan func()
	stop chan struct{}
	done chan struct{}
	once sync.Once

	faulted      chan struct{} // closed after a fault
	fault        error         // that every call returns then
	ignoreFaults func()        // ends the watch for them
}

// CallWatcher is notified of each scoring forward pass, on the goroutine that runs it. Loading and training steps are not
// reported.
type CallWatcher interface {
	Begin(sequences, tokens int)
	End()
	// Broken is called, by any goroutine, when a model fails on everything for some seconds, also on what it computed before, and
	// with a *nativefault.FaultError before the calls in progress return its error.
	Broken(err error)
}

// RuntimeOptions selects the device and the number of threads of libtorch.
type RuntimeOptions struct {
	// Threads is the number of CPU threads per operation; 0 uses GOMAXPROCS, which follows the container's limit. The
	// runtime uses fewer if OpenMP starts fewer, because of OMP_THREAD_LIMIT.
	Threads int
	// PrecisionLimit is the maximum mean change of the violation of the built-in texts with Int8, above which Load fails;
	// the maximum change of a single text is ten times as large. 0 uses DefaultPrecisionLimit.
	PrecisionLimit float64
	// PackedDir is a directory for models in bf16 and int8 as they are computed with, so that they load at once and processes share
	// their memory. It is created; its files may be removed at any time. "" keeps none. What another user but root can write
	// is not used.
	PackedDir string
	// Warn is called with the reason when PackedDir is not used because another user can write there; nil: no call.
	Warn func(error)
	// Watch is notified of forward passes and faults; nil: nothing is.
	Watch CallWatcher
	// Device is "auto" (or empty), "cpu", or "cuda:N". Auto uses the first CUDA device when libtorch finds one.
	Device string
}

// NewRuntime starts the thread that owns libtorch. Close it to release the thread.
func NewRuntime(opts RuntimeOptions) (*Runtime, error) {
	if opts.Threads < 0 {
		return nil, fmt.Errorf("encoder: threads is %d; use 0 for all cores or a positive number", opts.Threads)
	}
	if !(opts.PrecisionLimit >= 0) {
		return nil, fmt.Errorf("encoder: precision limit is %v; use a positive number, such as %v", opts.PrecisionLimit, DefaultPrecisionLimit)
	}
	r := &Runtime{
		packedDir: packedweights.Dir(opts.PackedDir), warn: opts.Warn, watch: opts.Watch,
		work: make(chan func()), stop: make(chan struct{}), done: make(chan struct{}), faulted: make(chan struct{}),
	}
	if r.limit = opts.PrecisionLimit; r.limit == 0 {
		r.limit = DefaultPrecisionLimit
	}
	if r.threads = opts.Threads; r.threads == 0 {
		r.threads = runtime.GOMAXPROCS(0)
	}
	var err error
	if r.ignoreFaults, err = nativefault.Watch(r.fail); err != nil {
		return nil, fmt.Errorf("encoder: %w", err)
	}
	go r.loop()
	err = r.onThread(func() (err error) {
		r.device, err = r.parseDevice(opts.Device)
		return err
	})
	if err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Runtime) loop() {
	runtime.LockOSThread() // permanently: the thread ends with the goroutine
	defer close(r.done)
	C.name_thread() // the threads of OpenMP inherit the name, so that a profiler can attribute the model's time
	if !opens("libgomp.so.1") {
		_ = r.load() // whose OpenMP may have another name; the first call that needs libtorch returns the error
	}
	r.threads = int(C.start_threads(C.int(r.threads)))
	if r.loaded {
		C.at_set_num_threads(C.int(r.threads))
	}
	for {
		select {
		case f := <-r.work:
			f()
		case <-r.stop:
			r.scratch.free()
			return
		}
	}
}

// load loads libtorch, once. Call it on the thread.
func (r *Runtime) load() error {
	if r.loaded {
		return nil
	}
	if err := libtch.Load("libgotch.so"); err != nil {
		return fmt.Errorf("encoder: cannot load libtorch, without which only RoBERTa and BERT score, in bf16: %w", err)
	}
	C.at_set_num_threads(C.int(r.threads))
	r.loaded, r.linear = true, findLinear()
	return nil
}

// Libtorch loads libtorch and returns the path of its library.
func (r *Runtime) Libtorch() (path string, err error) {
	err = r.do(func() error {
		path = C.GoString(C.libtorch_path())
		return nil
	})
	return path, err
}

// do runs f, which calls libtorch, on the thread.
func (r *Runtime) do(f func() error) error {
	return r.onThread(func() error {
		if err := r.load(); err != nil {
			return err
		}
		return f()
	})
}

// onThread runs f on the thread and waits for it. A panic inside (gotch panics on some bad states) becomes an error.
func (r *Runtime) onThread(f func() error) error {
	result := make(chan error, 1)
	job := func() {
		defer func() {
			if p := recover(); p != nil {
				result <- fmt.Errorf("encoder: libtorch call failed: %s", firstLine(fmt.Sprint(p)))
			}
		}()
		result <- f()
	}
	select {
	case r.work <- job:
	case <-r.done:
		return ErrClosed
	case <-r.faulted:
		return r.fault
	}
	select {
	case err := <-result:
		return err
	case <-r.faulted:
		return r.fault
	}
}

// fail ends all calls, because of a fault. The errors of a service, which clients may see, do not describe it.
func (r *Runtime) fail(f *nativefault.FaultError) {
	r.fault = f
	if r.watch != nil {
		r.watch.Broken(f)
		r.fault = rewardmodel.ErrClosed
	}
	close(r.faulted)
}

// Close stops the thread after the call in progress. Later calls return ErrClosed. It may be called more than once.
func (r *Runtime) Close() {
	r.once.Do(func() {
		close(r.stop)
		r.ignoreFaults()
	})
	select {
	case <-r.done:
	case <-r.faulted: // the thread may be the one with the fault
	}
}

// Device names where tensors live: "cpu" or "cuda:N".
func (r *Runtime) Device() string {
	if r.device.IsCuda() {
		return "cuda:" + strconv.Itoa(r.device.Value)
	}
	return "cpu"
}

// parseDevice returns the device of a name. Only where there is a driver for GPUs does it ask libtorch.
func (r *Runtime) parseDevice(name string) (gotch.Device, error) {
	auto := name == "" || name == "auto"
	switch {
	case name == "cpu" || auto && !opens("libcuda.so.1"):
		return gotch.CPU, nil
	case auto:
		if err := r.load(); err != nil || !gotch.CUDA.IsAvailable() {
			return gotch.CPU, err
		}
		return gotch.CudaBuilder(0), nil
	case name == "cuda" || strings.HasPrefix(name, "cuda:"):
		index := 0
		if _, digits, ok := strings.Cut(name, ":"); ok {
			n, err := strconv.Atoi(digits)
			if err != nil || n < 0 {
				return gotch.CPU, fmt.Errorf("encoder: device %q; use auto, cpu or cuda:N", name)
			}
			index = n
		}
		if err := r.load(); err != nil {
			return gotch.CPU, err
		}
		if count := int(gotch.CUDA.DeviceCount()); index >= count {
			return gotch.CPU, fmt.Errorf("encoder: device %q, but libtorch sees %d CUDA devices; use auto or cpu, or build with LIBTORCH set to a CUDA libtorch", name, count)
		}
		return gotch.CudaBuilder(uint(index)), nil
	}
	return gotch.CPU, fmt.Errorf("encoder: unknown device %q; use auto, cpu or cuda:N", name)
}

// opens loads a shared library, and reports whether it could.
func opens(library string) bool {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	return C.opens(name) != 0
}

// seed makes libtorch's random numbers (dropout) repeatable. Call it on the libtorch thread.
func seed(s uint64) { C.at_manual_seed(C.int64_t(s)) }

// withoutGradients turns gradient tracking off on this thread and returns the function that turns it on again. Do not
// nest it: gotch v0.9.1 reads the previous state from uninitialized memory, so it cannot be restored.
func withoutGradients() (restore func()) {
	ts.MustGradSetEnabled(false)
	return func() { ts.MustGradSetEnabled(true) }
}

// firstLine removes the C++ and Go stacks that libtorch and gotch append to their messages.
func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.TrimSpace(s)
}
