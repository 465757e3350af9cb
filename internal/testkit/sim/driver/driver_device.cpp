// Initialisation, devices, contexts, error names, and the simulator's own control functions.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver.h"

// The mark by which the loader knows that this is no GPU.
EXPORT const int gpuprof_simulated;
const int gpuprof_simulated = 1;

static bool live(const Context *c) {
  for (auto &i : sim.contexts)
    if (i.second.get() == c) return true;
  return false;
}

// inject is the error configured for this call, and kills the contexts where it is to stay. named: by the function's
// own name, not as one of all calls.
static int inject(const char *function, bool *named) {
  int code = OK;
  for (Fault &f : sim.config.faults) {
    if (f.function != "*" && f.function != function) continue;
    if (++f.seen != f.nth) continue;
    code = f.code;
    *named = f.function != "*";
    if (!f.sticky) continue;
    for (auto &c : sim.contexts) context_fail_locked(c.second.get(), f.code, "injected");
  }
  return code;
}

Call::Call(const char *function, Need need) : function(function), outer(correlation), began(real_ns()) {
  hold = std::unique_lock<std::mutex>(sim.mu);
  correlation = next_correlation();
  sim.counts.calls++;
  if (current && !live(current)) current = nullptr;
  code = inject(function, &planted);
  if (code || need == Need::Nothing) return;
  if (!sim.initialised) code = NOT_INITIALIZED;
  else if (need == Need::Init) return;
  else if (!current) code = INVALID_CONTEXT;
  else if (need == Need::Context) code = current->error;
}

Call::~Call() {
  // Calls of the simulated libraries are none of CUDA's.
  const gpuprof_sim_hooks *h = hooks;
  if (h && function[0] == 'c' && function[1] == 'u' && function[2] >= 'A' && function[2] <= 'Z') h->call(function, (uint64_t)began, (uint64_t)real_ns(), correlation, code);
  correlation = outer;
}

int no_handle(const void *h, const char *function, const char *kind) {
  bool was = sim.dead_handles.count(const_cast<void *>(h)) != 0;
  sim.violation(std::string(function) + ": " + (was ? "a destroyed " : "not a ") + kind);
  return INVALID_HANDLE;
}

static int configure(std::unique_lock<std::mutex> &hold, const char *text) {
  std::string s = text ? text : "";
  for (size_t i = 0; i < s.size();) {
    size_t end = s.find(';', i);
    if (end == std::string::npos) end = s.size();
    std::string item = s.substr(i, end - i);
    i = end + 1;
    if (item.empty()) continue;
    size_t eq = item.find('=');
    if (item == "reset") simulate_reset(hold);
    else if (eq == std::string::npos || !sim.config.set(item.substr(0, eq), item.substr(eq + 1))) return -1;
  }
  return 0;
}

// gpuprof_sim_configure takes "key=value;key=value" (see doc.go); "reset" forgets everything first. -1: a key or
// value it does not know.
EXPORT int gpuprof_sim_configure(const char *text) {
  std::unique_lock<std::mutex> hold(sim.mu);
  return configure(hold, text);
}

// gpuprof_sim_report writes the counts and findings as lines, at most n bytes with the final zero, and returns how
// long the whole is.
EXPORT int gpuprof_sim_report(char *out, int n) {
  std::lock_guard<std::mutex> hold(sim.mu);
  std::string s = simulate_report();
  if (out && n > 0) {
    size_t m = std::min(s.size(), (size_t)n - 1);
    memcpy(out, s.data(), m);
    out[m] = 0;
  }
  return (int)s.size();
}

// read_environment configures the simulator as GPUPROF_SIM says, once a process; false where it cannot be understood.
static bool read_environment() {
  std::unique_lock<std::mutex> hold(sim.mu);
  if (sim.env_read) return true;
  sim.env_read = true;
  catch_faults();
  const char *env = getenv("GPUPROF_SIM");
  if (!env || configure(hold, env) == 0) return true;
  sim.violation("GPUPROF_SIM: unknown key or value in " + std::string(env));
  return false;
}

EXPORT CUresult cuInit(unsigned) {
  if (!read_environment()) return INVALID_VALUE;
  {
    std::lock_guard<std::mutex> hold(sim.mu);
    std::string twice = duplicate_kernels();
    if (!twice.empty()) sim.violation("kernels defined twice: " + twice);
  }
  inject_profiler();
  {
    ENTER(cuInit, Nothing);
    if (sim.config.init) return sim.config.init;
    if (sim.config.devices == 0) return NO_DEVICE;
    sim.initialised = true;
  }
  tell_init_finished();
  return OK;
}

EXPORT CUresult cuDriverGetVersion(int *v) {
  if (!read_environment()) return INVALID_VALUE;
  ENTER(cuDriverGetVersion, Nothing);
  if (!v) return INVALID_VALUE;
  *v = sim.config.driver;
  return OK;
}

// A tool that records by CUPTI decides itself what it keeps: these are calls of the program and no more.
EXPORT CUresult cuProfilerStart() {
  ENTER(cuProfilerStart, Context);
  return OK;
}

EXPORT CUresult cuProfilerStop() {
  ENTER(cuProfilerStop, Context);
  return OK;
}

EXPORT CUresult cuGetErrorName(CUresult code, const char **s) {
  *s = error_name(code);
  return *s ? OK : INVALID_VALUE;
}

EXPORT CUresult cuGetErrorString(CUresult code, const char **s) {
  *s = error_text(code);
  return *s ? OK : INVALID_VALUE;
}

EXPORT CUresult cuDeviceGetCount(int *n) {
  ENTER(cuDeviceGetCount, Init);
  *n = sim.config.devices;
  return OK;
}

EXPORT CUresult cuDeviceGet(int *device, int ordinal) {
  ENTER(cuDeviceGet, Init);
  if (ordinal < 0 || ordinal >= sim.config.devices) return INVALID_DEVICE;
  *device = ordinal;
  return OK;
}

static bool bad(int device) { return device < 0 || device >= sim.config.devices; }

static void text_out(char *out, int n, const std::string &s) {
  if (n <= 0) return;
  size_t m = std::min(s.size(), (size_t)n - 1);
  memcpy(out, s.data(), m);
  out[m] = 0;
}

EXPORT CUresult cuDeviceGetName(char *name, int n, int device) {
  ENTER(cuDeviceGetName, Init);
  if (bad(device)) return INVALID_DEVICE;
  text_out(name, n, sim.config.name);
  return OK;
}

void uuid(unsigned char *out, int device) {
  memcpy(out, "gpuprof-sim-dev", 15);
  out[15] = (unsigned char)device;
}

EXPORT CUresult cuDeviceGetUuid(unsigned char *out, int device) {
  ENTER(cuDeviceGetUuid, Init);
  if (bad(device)) return INVALID_DEVICE;
  uuid(out, device);
  return OK;
}

EXPORT CUresult cuDeviceGetUuid_v2(unsigned char *out, int device) {
  ENTER(cuDeviceGetUuid_v2, Init);
  if (bad(device)) return INVALID_DEVICE;
  uuid(out, device);
  return OK;
}

EXPORT CUresult cuDeviceGetPCIBusId(char *out, int n, int device) {
  ENTER(cuDeviceGetPCIBusId, Init);
  if (bad(device)) return INVALID_DEVICE;
  char s[32];
  snprintf(s, sizeof s, "00000000:%02X:00.0", device + 1);
  text_out(out, n, s + 4); // the driver's form has a domain of four digits
  return OK;
}

EXPORT CUresult cuDeviceTotalMem_v2(size_t *n, int device) {
  ENTER(cuDeviceTotalMem_v2, Init);
  if (bad(device)) return INVALID_DEVICE;
  *n = sim.config.memory;
  return OK;
}

// What a device of the Hopper class says, except for the number of multiprocessors.
static const std::map<int, int> attributes = {
    {1, 1024},   {2, 1024},     {3, 1024},    {4, 64},     {5, 2147483647}, {6, 65535}, {7, 65535}, {8, 49152},
    {9, 65536},  {10, 32},      {11, 2147483647}, {12, 65536}, {13, 1980000}, {14, 512}, {15, 1}, {17, 0},
    {18, 0},     {19, 1},       {20, 0},      {31, 1},     {32, 1},         {34, 0},    {35, 0},    {36, 2619000},
    {37, 5120},  {38, 52428800}, {39, 2048},  {40, 3},     {41, 1},         {50, 0},    {78, 1},    {81, 233472},
    {82, 65536}, {83, 1},       {90, 1},      {95, 1},     {97, 232448},    {106, 32},  {108, 32768000}, {115, 1},
};

EXPORT CUresult cuDeviceGetAttribute(int *v, int attribute, int device) {
  ENTER(cuDeviceGetAttribute, Init);
  if (bad(device)) return INVALID_DEVICE;
  if (attribute < 1 || attribute > 150) return INVALID_VALUE;
  const Config &c = sim.config;
  if (auto i = c.attributes.find(attribute); i != c.attributes.end()) *v = i->second;
  else if (attribute == 16) *v = c.multiprocessors;
  else if (attribute == 33) *v = device + 1;
  else if (attribute == 75) *v = c.major;
  else if (attribute == 76) *v = c.minor;
  else if (auto j = attributes.find(attribute); j != attributes.end()) *v = j->second;
  else *v = 0;
  return OK;
}

// write_report leaves the report where a test that starts a program looks for it. What the last call leaves is what the
// program left: a context that was never released is still counted there.
static void write_report() {
  if (sim.config.report.empty()) return;
  if (FILE *f = fopen(sim.config.report.c_str(), "w")) {
    fputs(simulate_report().c_str(), f);
    fclose(f);
  }
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *out, int device) {
  ENTER(cuDevicePrimaryCtxRetain, Init);
  if (bad(device)) return INVALID_DEVICE;
  auto &c = sim.contexts[device];
  if (!c) {
    c = std::make_unique<Context>();
    c->device = device;
    c->default_pool = std::make_unique<Pool>();
    c->default_pool->context = c.get();
    c->default_pool->is_default = true;
  }
  c->references++;
  *out = c.get();
  write_report();
  return OK;
}

EXPORT CUresult cuDevicePrimaryCtxRelease_v2(int device) {
  ENTER(cuDevicePrimaryCtxRelease_v2, Init);
  auto c = sim.contexts.find(device);
  if (c == sim.contexts.end()) {
    sim.violation("cuDevicePrimaryCtxRelease of a context that nobody retains");
    return INVALID_CONTEXT;
  }
  if (--c->second->references == 0) context_close(call.hold, c->second.get(), true);
  write_report();
  return OK;
}

EXPORT CUresult cuDevicePrimaryCtxReset_v2(int device) {
  ENTER(cuDevicePrimaryCtxReset_v2, Init);
  auto c = sim.contexts.find(device);
  if (c != sim.contexts.end()) context_close(call.hold, c->second.get(), false);
  return OK;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext c) {
  ENTER(cuCtxSetCurrent, Init);
  if (c && !live((Context *)c)) {
    sim.violation("cuCtxSetCurrent: a released context");
    return INVALID_CONTEXT;
  }
  current = (Context *)c;
  return OK;
}

EXPORT CUresult cuCtxGetCurrent(CUcontext *c) {
  ENTER(cuCtxGetCurrent, Init);
  *c = current;
  return OK;
}

EXPORT CUresult cuCtxGetDevice(int *device) {
  ENTER(cuCtxGetDevice, Context);
  *device = current->device;
  return OK;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER(cuCtxGetStreamPriorityRange, Context);
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return OK;
}

EXPORT CUresult cuCtxResetPersistingL2Cache() {
  ENTER(cuCtxResetPersistingL2Cache, Context);
  return OK;
}

EXPORT CUresult cuCtxSynchronize() {
  ENTER(cuCtxSynchronize, Context);
  if (int e = capture_forbids()) return e;
  Context *c = current;
  std::vector<std::pair<StreamRef, uint64_t>> wait;
  Clock known;
  for (auto &s : sim.streams)
    if (s.first->context == c) {
      wait.push_back({s.second, s.first->queued});
      known.join(s.first->clock);
    }
  for (auto &s : sim.finishing) {
    if (s->context != c) continue;
    wait.push_back({s, s->queued});
    known.join(s->clock);
  }
  call.hold.unlock();
  for (auto &w : wait) stream_wait(w.first.get(), w.second);
  call.hold.lock();
  sim.host.join(known);
  return c->error;
}

// Suffixed names, and the driver version that brought them, where a plain name means one of them.
struct Versioned {
  const char *name;
  int since;
};
static const Versioned versioned[] = {
    {"cuDeviceTotalMem", 3020}, {"cuMemAlloc", 3020},        {"cuMemFree", 3020},        {"cuMemGetInfo", 3020},
    {"cuMemcpyHtoDAsync", 3020}, {"cuMemcpyDtoHAsync", 3020}, {"cuMemcpyDtoDAsync", 3020}, {"cuMemcpyHtoD", 3020},
    {"cuMemcpyDtoH", 3020},     {"cuMemHostGetDevicePointer", 3020}, {"cuStreamDestroy", 4000}, {"cuEventDestroy", 4000},
    {"cuStreamBeginCapture", 10010}, {"cuDevicePrimaryCtxRelease", 11000}, {"cuDevicePrimaryCtxReset", 11000},
    {"cuDeviceGetUuid", 11040}, {"cuGetProcAddress", 12000}, {"cuEventElapsedTime", 12080}, {"cuGraphInstantiate", 11000},
};

EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, unsigned long long, int *status) {
  ENTER(cuGetProcAddress_v2, Nothing);
  *out = nullptr;
  std::string name = symbol ? symbol : "";
  for (const Versioned &v : versioned)
    if (name == v.name && version >= v.since && sim.config.driver >= v.since) name += "_v2";
  bool hidden = sim.config.missing.count(name) || sim.config.missing.count(symbol ? symbol : "");
  Dl_info self;
  if (!hidden && dladdr((void *)cuInit, &self)) {
    if (void *lib = dlopen(self.dli_fname, RTLD_NOLOAD | RTLD_LAZY)) {
      *out = dlsym(lib, name.c_str());
      dlclose(lib);
    }
  }
  if (status) *status = *out ? 0 : 1; // CU_GET_PROC_ADDRESS_SUCCESS, _SYMBOL_NOT_FOUND
  return *out ? OK : NOT_FOUND;
}
