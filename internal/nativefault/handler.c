#define _GNU_SOURCE
#include "handler.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static int notice[2] = {-1, -1}; // a pipe: a byte is written at the first fault, and nobody reads it
static atomic_int limit;         // seconds; 0: nobody watches
static atomic_int taken;
static native_fault fault;
static struct sigaction go_abort, go_illegal;
static pthread_once_t installed = PTHREAD_ONCE_INIT;
static int failed; // the errno of install

static uintptr_t instruction(const void *context) {
#if defined(__linux__) && defined(__x86_64__)
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__linux__) && defined(__aarch64__)
	return (uintptr_t)((const ucontext_t *)context)->uc_mcontext.pc;
#else
	(void)context;
	return 0;
#endif
}

// on_fault records the fault and suspends the thread, which cannot continue, so that the others can end the process in order. They
// may wait for a lock that this thread holds, of the allocator say: after the limit it returns without the handler, to the same
// fault, of which the process then dies. It calls only what is safe in a signal handler.
static void on_fault(int sig, siginfo_t *info, void *context) {
	int untaken = 0;
	if (atomic_load(&limit) > 0) {
		if (atomic_compare_exchange_strong(&taken, &untaken, 1)) {
			fault = (native_fault){sig, sig == SIGABRT ? 0 : (uintptr_t)info->si_addr, instruction(context)};
			while (write(notice[1], "", 1) == -1 && errno == EINTR) {}
		}
		struct timespec left = {atomic_load(&limit), 0};
		while (nanosleep(&left, &left) == -1 && errno == EINTR) {}
	}
	signal(sig, SIG_DFL);
}

// on_abort is on_fault if the process has aborted itself, and Go's handler for a signal from elsewhere.
static void on_abort(int sig, siginfo_t *info, void *context) {
	if (info->si_code == SI_TKILL && info->si_pid == getpid()) on_fault(sig, info, context);
	else go_abort.sa_sigaction(sig, info, context);
}

// on_illegal is on_fault if an instruction was invalid, and Go's handler for a signal from elsewhere.
static void on_illegal(int sig, siginfo_t *info, void *context) {
	if (info->si_code > 0) on_fault(sig, info, context);
	else go_illegal.sa_sigaction(sig, info, context);
}

static int handle(int sig, void (*handler)(int, siginfo_t *, void *), struct sigaction *previous) {
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_ONSTACK};
	sigfillset(&action.sa_mask);
	return sigaction(sig, &action, previous);
}

// Go forwards these signals to a handler that was there before it started, if they were raised outside Go code (package os/signal).
__attribute__((constructor)) static void before_go(void) {
	handle(SIGSEGV, on_fault, NULL);
	handle(SIGBUS, on_fault, NULL);
	handle(SIGFPE, on_fault, NULL);
}

static void install(void) {
	if (pipe2(notice, O_CLOEXEC | O_NONBLOCK) != 0) failed = errno;
	else if (handle(SIGABRT, on_abort, &go_abort) != 0 || handle(SIGILL, on_illegal, &go_illegal) != 0) failed = errno;
}

int watch_faults(int seconds) {
	pthread_once(&installed, install);
	if (failed) return -failed;
	atomic_store(&limit, seconds);
	return notice[0];
}

native_fault first_fault(void) { return fault; }

void place_of(uintptr_t pc, char *text, int size) {
	Dl_info info;
	if (pc == 0 || dladdr((void *)pc, &info) == 0 || info.dli_fname == NULL) {
		text[0] = 0;
		return;
	}
	const char *file = strrchr(info.dli_fname, '/');
	file = file ? file + 1 : info.dli_fname;
	int n = snprintf(text, (size_t)size, "%s+%#lx", file, (unsigned long)(pc - (uintptr_t)info.dli_fbase));
	if (info.dli_sname && n > 0 && n < size) snprintf(text + n, (size_t)(size - n), " (%s)", info.dli_sname);
}
