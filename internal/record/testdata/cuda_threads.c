// Six threads launch and push ranges at once, while the recorder flushes: for the sanitizers, without a simulated driver.
//
//   cuda_threads RECORDER LIBCUPTI    a libcuda.so.1 is in the loader's path
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../testkit/sim/driver/hooks.h"

enum { THREADS = 6, STEPS = 40, KERNELS = 200 };
static const struct gpuprof_sim_hooks *hooks;
static void (*runtime_call)(uint32_t, uint64_t, uint64_t, uint32_t);

// NVTX's tables, as its header makes them.
static void *core[16], *core2[16];
static void **core_at[16], **core2_at[16];
static int functions(uint32_t module, void ****table, uint32_t *n) {
	*table = module == 1 ? core_at : core2_at;
	*n = 16;
	return 1;
}
static const struct {
	size_t size;
	int (*functions)(uint32_t, void ****, uint32_t *);
} exported = {16, functions};
static const void *export_table(uint32_t id) { return id == 1 ? &exported : 0; }

static uint64_t now(void) {
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *work(void *arg) {
	uint32_t me = (uint32_t)(uintptr_t)arg;
	static const char *const names[] = {"_Z1av", "_Z1bv", "_Z1cv"};
	for (uint32_t s = 0; s < STEPS; s++) {
		char text[40];
		snprintf(text, sizeof text, "step %u of %u", s, me);
		((int (*)(const char *))core[9])(text);
		for (uint32_t k = 0; k < KERNELS; k++) {
			uint64_t t = now();
			struct gpuprof_sim_operation o = {.kind = 10, .name = names[k % 3], .start = t, .end = t + 10, .corr = me << 24 | s << 12 | k, .context = 1, .stream = me, .grid = {4, 1, 1}, .block = {32, 1, 1}};
			runtime_call(1, t - 10, t, o.corr);
			hooks->operation(&o);
		}
		((int (*)(void))core[11])();
	}
	return 0;
}

int main(int argc, char **argv) {
	if (argc < 3) return 9;
	void *driver = dlopen("libcuda.so.1", RTLD_NOW), *cupti = dlopen(argv[2], RTLD_NOW), *recorder = dlopen(argv[1], RTLD_NOW);
	if (!driver || !cupti || !recorder) return fprintf(stderr, "%s\n", dlerror()), 9;
	hooks = ((const struct gpuprof_sim_hooks *(*)(void))dlsym(cupti, "gpuprof_sim_cupti_hooks"))();
	runtime_call = (void (*)(uint32_t, uint64_t, uint64_t, uint32_t))dlsym(cupti, "gpuprof_sim_cupti_runtime");
	for (int i = 0; i < 16; i++) core_at[i] = &core[i], core2_at[i] = &core2[i];
	if (((int (*)(const void *(*)(uint32_t)))dlsym(recorder, "InitializeInjectionNvtx2"))(export_table) != 1) return 8;
	if (((int (*)(void))dlsym(recorder, "InitializeInjection"))() != 1) return 7;
	hooks->init_finished();
	pthread_t t[THREADS];
	for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&t[i], 0, work, (void *)(i + 1));
	for (int i = 0; i < THREADS; i++) pthread_join(t[i], 0);
	hooks->context_ends();
	return 0;
}
