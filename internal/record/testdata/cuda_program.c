// A program through libcuda, as one in C++, or JAX beneath Python, is one: kernels, copies, fills, waits, and a graph
// that is captured once and launched many times.
//
//   cuda_program STEPS KERNELS [graph] [two] [END AT]    STEPS times KERNELS; two: in two streams
//
// END says what it does after step AT: kill, _exit, abort, exec (itself, without that), fork (a child that ends as
// programs do), forkfirst (before cuInit, a child that does the same work), until (go on until a file says "end"),
// flushed (go on until the recorder has flushed twenty times more, then kill), hold (launch nothing until a file says
// "end"), stop (cuProfilerStop, then go on). TEST_LOAD names libraries, by colons,
// that are loaded before the driver starts.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef int Result;
typedef void *Handle;
typedef unsigned long long Pointer;

static void *library;
static void *function(const char *name) {
	void *f = dlsym(library, name);
	if (!f) fprintf(stderr, "no %s\n", name), exit(9);
	return f;
}
#define CALL(name, types, ...)                                                  \
	do {                                                                    \
		Result r_ = ((Result(*) types)function(name))(__VA_ARGS__);     \
		if (r_) fprintf(stderr, "%s: %d\n", name, r_), exit(8);         \
	} while (0)

static Handle kernel, streams[2];
static Pointer memory;
static char host[4096];

static void work(int kernels, int two) {
	unsigned n = 64;
	void *params[] = {&n, &n};
	for (int i = 0; i < kernels; i++)
		CALL("cuLaunchKernel", (Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void **, void **), kernel, 2, 1, 1, 32, 1, 1, 0, streams[two ? i % 2 : 0], params, 0);
}

static int ended(const char *path) {
	char text[4096] = "";
	FILE *f = fopen(path, "r");
	if (!f) return 0;
	text[fread(text, 1, sizeof text - 1, f)] = 0;
	fclose(f);
	return strstr(text, "\"end\"") != 0;
}

// clocks is how many chunks of type 4 the process's recording has: the recorder writes one every ten flushes.
static int clocks(void) {
	char path[4096];
	unsigned head[6];
	int n = 0;
	snprintf(path, sizeof path, "%s/cuda-%d.gpt", getenv("GPUPROF_CUDA"), (int)getpid());
	FILE *f = fopen(path, "r");
	if (!f || fseek(f, 16, SEEK_SET)) return f ? fclose(f), 0 : 0;
	while (fread(head, sizeof head, 1, f) == 1 && !fseek(f, head[3], SEEK_CUR)) n += (head[1] & 0xffff) == 4;
	fclose(f);
	return n;
}

static int flushed(void) {
	static int before = -1;
	if (before < 0) before = clocks();
	return clocks() >= before + 3; // two whole rounds of ten
}

// leave does what END says, after the step that it is for; 1: go on for ever.
static int leave(const char *how, char **argv) {
	int status = 0;
	char *again[] = {argv[0], argv[1], argv[2], 0};
	if (!strcmp(how, "kill")) kill(getpid(), SIGKILL);
	if (!strcmp(how, "_exit")) _exit(3);
	if (!strcmp(how, "abort")) abort();
	if (!strcmp(how, "exec")) execv(argv[0], again);
	if (!strcmp(how, "fork")) {
		if (!fork()) exit(5);
		wait(&status);
		if (WEXITSTATUS(status) != 5) exit(7);
	}
	if (!strcmp(how, "flushed") && flushed()) kill(getpid(), SIGKILL);
	for (int ms = 0; !strcmp(how, "hold") && ms < 60000 && !ended(getenv("TEST_UNTIL")); ms++) usleep(1000); // a failed test ends
	if (!strcmp(how, "stop")) CALL("cuProfilerStop", (void));
	return !strcmp(how, "flushed") || (!strcmp(how, "until") && !ended(getenv("TEST_UNTIL")));
}

int main(int argc, char **argv) {
	int steps = argc > 1 ? atoi(argv[1]) : 10, kernels = argc > 2 ? atoi(argv[2]) : 20, graph = 0, two = 0, device = 0;
	const char *how = argc > 4 ? argv[argc - 2] : "";
	int at = argc > 4 ? atoi(argv[argc - 1]) : 0;
	for (int i = 3; i < argc; i++) graph |= !strcmp(argv[i], "graph"), two |= !strcmp(argv[i], "two");
	const char *ptx = getenv("TEST_PTX"), *name = getenv("TEST_KERNEL");
	for (char *path = getenv("TEST_LOAD") ? strtok(strdup(getenv("TEST_LOAD")), ":") : 0; path; path = strtok(0, ":"))
		if (!dlopen(path, RTLD_NOW)) return fprintf(stderr, "%s\n", dlerror()), 9;
	library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library || !ptx || !name) return fprintf(stderr, "no library or kernel: %s\n", dlerror()), 9;
	if (!strcmp(how, "forkfirst") && fork()) {
		int status = 0;
		wait(&status);
		if (status) return 6;
	}
	Handle context, module, captured, executable;
	CALL("cuInit", (unsigned), 0);
	CALL("cuDeviceGet", (int *, int), &device, 0);
	CALL("cuDevicePrimaryCtxRetain", (Handle *, int), &context, device);
	CALL("cuCtxSetCurrent", (Handle), context);
	CALL("cuModuleLoadData", (Handle *, const void *), &module, ptx);
	CALL("cuModuleGetFunction", (Handle *, Handle, const char *), &kernel, module, name);
	for (int i = 0; i < 2; i++) CALL("cuStreamCreate", (Handle *, unsigned), &streams[i], 1);
	CALL("cuMemAlloc_v2", (Pointer *, size_t), &memory, sizeof host);
	if (graph) {
		CALL("cuStreamBeginCapture_v2", (Handle, int), streams[0], 0);
		work(kernels, 0);
		CALL("cuStreamEndCapture", (Handle, Handle *), streams[0], &captured);
		CALL("cuGraphInstantiateWithFlags", (Handle *, Handle, unsigned long long), &executable, captured, 0);
	}
	void (*mark)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "test_mark");
	if (mark) mark();
	for (int s = 0, more = 1; s < steps || more; s++) {
		CALL("cuMemcpyHtoDAsync_v2", (Pointer, const void *, size_t, Handle), memory, host, sizeof host, streams[0]);
		CALL("cuMemsetD32Async", (Pointer, unsigned, size_t, Handle), memory, 1, 64, streams[0]);
		CALL("cuStreamSynchronize", (Handle), streams[0]); // what comes before the other stream's use
		if (graph) CALL("cuGraphLaunch", (Handle, Handle), executable, streams[0]);
		else work(kernels, two);
		for (int i = 0; i < 2; i++) CALL("cuStreamSynchronize", (Handle), streams[i]);
		CALL("cuMemcpyDtoHAsync_v2", (void *, Pointer, size_t, Handle), host, memory, 4, streams[0]);
		more = (s == at || !strcmp(how, "until") || (s > at && !strcmp(how, "flushed"))) && leave(how, argv);
	}
	CALL("cuCtxSynchronize", (void));
	if (mark) mark();
	printf("done %d\n", steps);
	return 0;
}
