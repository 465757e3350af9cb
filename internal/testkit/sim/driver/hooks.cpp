// What a profiler sees of the driver: it is loaded by cuInit, and told of calls and operations.
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

std::atomic<const gpuprof_sim_hooks *> hooks;
thread_local uint32_t correlation;

void uuid(unsigned char *out, int device);

uint32_t next_correlation() {
  static std::atomic<uint32_t> last{0};
  return ++last;
}

int64_t real_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

void run_work(const WorkRef &w, Stream &s, uint32_t graph) {
  if (!w->always && s.context->error != OK) return;
  const gpuprof_sim_hooks *h = hooks;
  int64_t began = real_ns();
  w->run(s);
  if (!h || !w->shown.kind) return;
  gpuprof_sim_operation o = w->shown;
  o.start = (uint64_t)began, o.end = (uint64_t)std::max(real_ns(), began + 1), o.corr = correlation;
  o.device = (uint32_t)s.context->device, o.context = o.device + 1, o.stream = (uint32_t)s.number;
  if (graph) o.graph = graph, o.node = (uint64_t)(uintptr_t)w.get();
  h->operation(&o);
}

// gpuprof_sim_set_hooks is how the simulated CUPTI is told of what happens; null ends that.
EXPORT void gpuprof_sim_set_hooks(const gpuprof_sim_hooks *h) { hooks = h; }

void inject_profiler() {
  static std::atomic<pid_t> done{0};
  if (done.exchange(getpid()) == getpid()) return;
  const char *path = getenv("CUDA_INJECTION64_PATH");
  if (!path || !*path) return;
  void *h = dlopen(path, RTLD_NOW);
  if (!h) return; // the driver says nothing either
  auto f = (int (*)())dlsym(h, "InitializeInjection");
  if (f) f();
}

void tell_init_finished() {
  const gpuprof_sim_hooks *h = hooks;
  if (!h) return;
  h->init_finished();
  for (int i = 0; i < sim.config.devices; i++) {
    gpuprof_sim_device d = {(uint32_t)i, (uint32_t)sim.config.multiprocessors, (uint32_t)sim.config.major, (uint32_t)sim.config.minor, sim.config.memory, 3352320000, {}, sim.config.name.c_str()};
    uuid(d.uuid, i);
    h->device(&d);
  }
}
