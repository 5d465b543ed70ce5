// The threads of the checks.
#pragma once
#include <pthread.h>
#include <stdlib.h>

enum { maxThreads = 4 };

// GOMP_parallel stands in for that of libtorch's OpenMP, which kernels.c looks up at run time: it runs a task on threads
// that the sanitizers know.
__attribute__((visibility("default"))) void GOMP_parallel(void (*task)(void *), void *data, unsigned threads, unsigned flags);

typedef struct {
	void (*task)(void *);
	void *data;
} call;

static void *run_call(void *c) {
	((call *)c)->task(((call *)c)->data);
	return NULL;
}

void GOMP_parallel(void (*task)(void *), void *data, unsigned threads, unsigned flags) {
	(void)flags;
	pthread_t others[maxThreads];
	call c = {task, data};
	for (unsigned i = 1; i < threads; i++)
		if (pthread_create(&others[i], NULL, run_call, &c)) abort();
	task(data);
	for (unsigned i = 1; i < threads; i++) pthread_join(others[i], NULL);
}
