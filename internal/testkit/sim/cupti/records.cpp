// Records of what the simulated driver does, and of what a test puts in.
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cupti.h"

template <typename T> static void put(uint8_t *p, int at, T v) { memcpy(p + at, &v, sizeof v); }

static int number_of(const char *const *names, int n, const char *name) {
  for (int i = 1; i < n; i++)
    if (!strcmp(names[i], name)) return i;
  return 0;
}

static void put_call(int kind, uint32_t id, uint64_t start, uint64_t end, uint32_t corr, int result) {
  static thread_local uint32_t thread;
  if (!thread) thread = (uint32_t)syscall(SYS_gettid);
  if (!recorded[kind] && !by_number[kind == 5][id]) return;
  pthread_mutex_lock(&state);
  if (uint8_t *p = room(40)) {
    put<uint32_t>(p, 0, (uint32_t)kind), put<uint32_t>(p, 4, id);
    put(p, 8, start), put(p, 16, end);
    put<uint32_t>(p, 24, (uint32_t)getpid()), put(p, 28, thread), put(p, 32, corr), put(p, 36, result);
  }
  pthread_mutex_unlock(&state);
}

static void call(const char *name, uint64_t start, uint64_t end, uint32_t corr, int result) {
  const int n = sizeof driver_calls / sizeof *driver_calls;
  int id = number_of(driver_calls, n, name);
  if (!id || inside) return;
  put_call(4, (uint32_t)id, start, end, corr, result);
}

static void kernel(const gpuprof_sim_operation *o) {
  uint8_t *p = room(abi->kernel);
  if (!p) return;
  put<uint32_t>(p, 0, 10), put<uint16_t>(p, 6, 32), put(p, 16, o->start), put(p, 24, o->end);
  put(p, 40, o->device), put(p, 44, o->context), put(p, 48, o->stream);
  for (int i = 0; i < 3; i++) put(p, 52 + 4 * i, o->grid[i]), put(p, 64 + 4 * i, o->block[i]);
  put(p, 76, o->shared), put(p, 80, o->dynamic), put<uint32_t>(p, 84, 0), put(p, 92, o->corr), put(p, 104, o->name);
  put<uint8_t>(p, 136, 0), put(p, 144, o->node), put(p, 156, o->graph);
}

static void copy(const gpuprof_sim_operation *o) {
  bool between = o->copy == 10;
  uint8_t *p = room(between ? 96 : abi->copy);
  if (!p) return;
  put<uint32_t>(p, 0, between ? 22 : 1), put(p, 4, o->copy), put(p, 5, o->from), put(p, 6, o->to), put<uint8_t>(p, 7, 1);
  put(p, 8, o->bytes), put(p, 16, o->start), put(p, 24, o->end), put(p, 32, o->device), put(p, 36, o->context), put(p, 40, o->stream);
  if (between) {
    put(p, 44, o->device), put(p, 48, o->context), put(p, 52, o->device + 1), put(p, 56, o->context), put(p, 60, o->corr);
    put(p, 72, o->node), put(p, 80, o->graph);
    return;
  }
  put(p, 44, o->corr), put(p, 64, o->node), put(p, 72, o->graph);
}

static void fill(const gpuprof_sim_operation *o) {
  uint8_t *p = room(abi->fill);
  if (!p) return;
  put<uint32_t>(p, 0, 2), put(p, 4, o->value), put(p, 8, o->bytes), put(p, 16, o->start), put(p, 24, o->end);
  put(p, 32, o->device), put(p, 36, o->context), put(p, 40, o->stream), put(p, 44, o->corr), put(p, 50, o->memory), put(p, 64, o->node), put(p, 72, o->graph);
}

static void graph(const gpuprof_sim_operation *o) {
  uint8_t *p = room(abi->graph);
  if (!p) return;
  put<uint32_t>(p, 0, 51), put(p, 4, o->corr), put(p, 8, o->start), put(p, 16, o->end);
  put(p, 24, o->device), put(p, 28, o->graph), put(p, 32, o->context), put(p, 36, o->stream);
}

static void operation(const gpuprof_sim_operation *o) {
  if (o->kind == 51 ? !recorded[51] : recorded[51] && o->graph) return; // a graph as a whole, or its nodes
  int kind = o->kind == 1 && o->copy == 10 ? 22 : o->kind;
  if (!recorded[kind] && !(kind == 10 && recorded[3])) return;
  pthread_mutex_lock(&state);
  switch (o->kind) {
  case 1:
    copy(o);
    break;
  case 2:
    fill(o);
    break;
  case 10:
    kernel(o);
    break;
  case 51:
    graph(o);
    break;
  }
  pthread_mutex_unlock(&state);
}

static gpuprof_sim_device devices[16];
static int device_count;
static void put_device(const gpuprof_sim_device *d) {
  pthread_mutex_lock(&state);
  if (uint8_t *p = room(abi->device)) {
    put<uint32_t>(p, 0, 8), put<uint32_t>(p, 4, 0), put(p, 8, d->kilobytes_per_s), put(p, 16, d->memory), put(p, 44, d->sms);
    put(p, 104, d->major), put(p, 108, d->minor), put(p, 112, d->number);
    memcpy(p + 120, d->uuid, 16);
    put(p, 136, d->name), put<uint8_t>(p, 145, 0);
  }
  pthread_mutex_unlock(&state);
}
static void device(const gpuprof_sim_device *d) {
  if (device_count < 16) devices[device_count++] = *d;
  if (recorded[8]) put_device(d);
}
void put_devices() {
  for (int i = 0; i < device_count; i++) put_device(&devices[i]);
}

void tell_resource(uint32_t id);
static void init_finished() {
  initialised = true;
  tell_resource(5);
}
static void context_ends() { tell_resource(2); }

static int find_driver(dl_phdr_info *i, size_t, void *path) {
  if (!i->dlpi_name || !strstr(i->dlpi_name, "/libcuda.so")) return 0;
  *(const char **)path = i->dlpi_name;
  return 1;
}

void start_telling() {
  static const gpuprof_sim_hooks hooks = {call, operation, device, init_finished, context_ends};
  const char *path = nullptr;
  dl_iterate_phdr(find_driver, &path);
  void *driver = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  auto set = driver ? (void (*)(const gpuprof_sim_hooks *))dlsym(driver, "gpuprof_sim_set_hooks") : nullptr;
  if (set) set(&hooks);
}

// For programs under test that bring no driver of their own: the same as the driver tells.
extern "C" __attribute__((visibility("default"))) const gpuprof_sim_hooks *gpuprof_sim_cupti_hooks() {
  static const gpuprof_sim_hooks hooks = {call, operation, device, init_finished, context_ends};
  return &hooks;
}
// A call of the runtime, by its number.
extern "C" __attribute__((visibility("default"))) void gpuprof_sim_cupti_runtime(uint32_t id, uint64_t start, uint64_t end, uint32_t corr) { put_call(5, id, start, end, corr, 0); }
