package nativefault

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"assay/internal/nativefault/faulttest"
)

// faultVariable makes a child of the test binary a process with a fault.
const faultVariable = "TEST_BINARY_FAULT"

const exitReported = 42

func TestMain(m *testing.M) {
	if fault, ok := os.LookupEnv(faultVariable); ok {
		os.Exit(faulty(fault))
	}
	os.Exit(m.Run())
}

// faulty watches for faults, and has one.
func faulty(fault string) int {
	reported := make(chan *FaultError)
	stop, err := Watch(func(f *FaultError) { reported <- f })
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer stop()
	go faults()[fault].happen()
	f := <-reported
	if fault == "hang" {
		select {}
	}
	for range 10 { // the rest of the process runs on
		ended := make(chan struct{})
		go func() { runtime.GC(); close(ended) }()
		<-ended
	}
	late := make(chan *FaultError)
	if _, err := Watch(func(f *FaultError) { late <- f }); err != nil || *<-late != *f {
		return 1
	}
	fmt.Println(f)
	return exitReported
}

type faultCase struct {
	happen func()
	want   string // what the process prints, as a regular expression; or:
}

const (
	goDump = ""     // no report, and Go's handler ends the process
	dies   = "dies" // the process dies of the signal
)

func faults() map[string]faultCase {
	cases := map[string]faultCase{
		"access":     {func() { faulttest.Access(0x1230) }, `^a fault in native code: SIGSEGV at address 0x1230, in .+\n$`},
		"thread":     {faulttest.AccessOnThread, `^a fault in native code: SIGSEGV at address 0x0, in .+\n$`},
		"abort":      {faulttest.Abort, `^a fault in native code: SIGABRT, in libc\.so.+\n$`},
		"illegal":    {faulttest.Illegal, `^a fault in native code: SIGILL, in .+\n$`},
		"two":        {func() { go faulttest.Access(16); faulttest.Access(16) }, `^a fault in native code: SIGSEGV at address 0x10, in .+\n$`},
		"hang":       {func() { faulttest.Access(0) }, dies},
		"panic":      {func() { recoverFrom(func() { fmt.Println(*noInt()) }); faulttest.Access(0) }, `^a fault in native code: SIGSEGV at address 0x0, in .+\n$`},
		"nil in Go":  {func() { fmt.Println(*noInt()) }, goDump},
		"sent":       {func() { _ = unix.Kill(os.Getpid(), unix.SIGABRT); select {} }, goDump},
		"sent fault": {func() { _ = unix.Kill(os.Getpid(), unix.SIGSEGV); select {} }, goDump},
	}
	if runtime.GOARCH == "amd64" { // not every processor traps
		cases["divide"] = faultCase{faulttest.Divide, `^a fault in native code: SIGFPE, in .+\n$`}
	}
	return cases
}

func noInt() *int { return nil }

func recoverFrom(f func()) {
	defer func() { _ = recover() }()
	f()
}

func TestFaults(t *testing.T) {
	for name, fault := range faults() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), faultVariable+"="+name)
			var output, errorOutput bytes.Buffer
			child.Stdout, child.Stderr = &output, &errorOutput
			var exit *exec.ExitError
			require.ErrorAs(t, child.Run(), &exit)
			switch fault.want {
			case dies:
				require.Equal(t, syscall.SIGSEGV, exit.Sys().(syscall.WaitStatus).Signal(), "%s", errorOutput.String())
				return
			case goDump:
				// Not the exit code: Go's dump may fault itself when the signal arrives while its thread runs C.
				require.NotContains(t, output.String(), "native code")
				require.Contains(t, errorOutput.String(), "goroutine ")
				return
			}
			require.Equal(t, exitReported, exit.ExitCode(), "%s%s", output.String(), errorOutput.String())
			require.Regexp(t, fault.want, output.String())
		})
	}
}
