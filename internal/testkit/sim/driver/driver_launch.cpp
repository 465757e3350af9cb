// Functions and launches.
#include <time.h>

#include "driver.h"

static Function *function_of(CUfunction h, const char *what) {
  auto i = sim.functions.find((Function *)h);
  if (i != sim.functions.end()) return i->first;
  no_handle(h, what, "function");
  return nullptr;
}

EXPORT CUresult cuFuncGetAttribute(int *v, int attribute, CUfunction h) {
  ENTER(cuFuncGetAttribute, Context);
  Function *f = function_of(h, "cuFuncGetAttribute");
  if (!f) return INVALID_HANDLE;
  switch (attribute) {
  case 0:
    *v = f->max_threads;
    return OK;
  case 1:
    *v = (int)f->static_shared;
    return OK;
  case 2: // constant and local memory are not counted
  case 3:
    *v = 0;
    return OK;
  case 4:
    *v = 32;
    return OK;
  case 5:
    *v = f->module->ptx_version;
    return OK;
  case 6:
    *v = sim.config.major * 10 + sim.config.minor;
    return OK;
  case 8:
    *v = f->dynamic_limit;
    return OK;
  default:
    *v = 0;
    return attribute >= 0 && attribute <= 15 ? OK : INVALID_VALUE;
  }
}

static const int shared_optin = 232448, shared_default = 49152, shared_per_sm = 233472;

EXPORT CUresult cuFuncSetAttribute(CUfunction h, int attribute, int v) {
  ENTER(cuFuncSetAttribute, Context);
  Function *f = function_of(h, "cuFuncSetAttribute");
  if (!f) return INVALID_HANDLE;
  if (attribute == 9 && v >= -1 && v <= 100) return OK; // the preferred carve-out
  if (attribute != 8 || v < 0 || (size_t)v + f->static_shared > shared_optin) return INVALID_VALUE;
  f->dynamic_limit = v;
  return OK;
}

static int occupancy(const Function *f, int threads, size_t dynamic) {
  int warps = (threads + 31) / 32;
  int blocks = std::min(32, 64 / warps);
  return std::min<int>(blocks, (int)(shared_per_sm / (f->static_shared + dynamic + 1024)));
}

EXPORT CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction h, int threads, size_t dynamic) {
  ENTER(cuOccupancyMaxActiveBlocksPerMultiprocessor, Context);
  Function *f = function_of(h, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
  if (!f) return INVALID_HANDLE;
  if (threads <= 0 || threads > f->max_threads) return INVALID_VALUE;
  *blocks = occupancy(f, threads, dynamic);
  return OK;
}

// argument checks parameter i of a launch; false where the kernel would fault on a GPU.
static bool argument(Work &w, const Function *f, int i, uint64_t value) {
  const gp_sim_param &p = f->kernel->params[i];
  const char *kinds[] = {"a number", "a const pointer", "a pointer", "a volatile pointer"};
  if (p.kind == GP_SIM_SCALAR) {
    if (p.size == 8 && looks_like_memory((void *)value) && !alloc_at((void *)value))
      sim.violation("kernel " + f->name + ", argument " + std::to_string(i) + " looks like an address: " + describe((void *)value));
    return true;
  }
  if (value == 0) return true;
  Alloc *a = alloc_at((void *)value);
  std::string wrong;
  if (!a) {
    wrong = describe((void *)value);
  } else if (a->context != current) {
    wrong = describe((void *)value) + " of another context";
  } else {
    size_t lo = (size_t)(value - (uint64_t)a->p);
    wrong = touch(w, (void *)value, a->bytes - lo, p.kind != GP_SIM_READ, "");
    if (wrong.empty()) {
      w.touches.back().flag = p.kind == GP_SIM_FLAG;
      return true;
    }
  }
  sim.violation("kernel " + f->name + ", argument " + std::to_string(i) + " (" + kinds[p.kind] + ") is " + wrong);
  return false;
}

// check_damage reports buffers of the launch that were written outside their bounds, each once.
static void check_damage(const Work &w) {
  std::lock_guard<std::mutex> hold(sim.mu);
  for (const Touch &t : w.touches) {
    auto a = sim.by_id.find(t.id);
    if (a == sim.by_id.end() || a->second->damaged) continue;
    std::string d = damage(a->second);
    if (d.empty()) continue;
    a->second->damaged = true;
    sim.violation(std::string("kernel ") + w.what + " or somebody before it wrote " + d);
  }
}

static void fault(Context *c, int code, const std::string &text) {
  std::lock_guard<std::mutex> hold(sim.mu);
  if (sim.faults.size() < 64) sim.faults.push_back(text);
  context_fail_locked(c, code, text);
}

// planned counts a kernel and is the error it is to die with, 0 if none. Hold Sim::mu.
static int planned() {
  return sim.config.launch_fault_at && ++sim.config.launches == sim.config.launch_fault_at ? sim.config.launch_fault : OK;
}

static int launch_size(const Function *f, const Launch &l) {
  uint64_t threads = (uint64_t)l.block.x * l.block.y * l.block.z;
  if (!l.grid.x || !l.grid.y || !l.grid.z || threads == 0) return INVALID_VALUE;
  if (l.grid.x > 2147483647u || l.grid.y > 65535 || l.grid.z > 65535) return INVALID_VALUE;
  if (l.block.x > 1024 || l.block.y > 1024 || l.block.z > 64 || threads > (uint64_t)f->max_threads) return INVALID_VALUE;
  size_t limit = std::max<size_t>(shared_default, f->static_shared + (size_t)f->dynamic_limit);
  if (f->static_shared + l.shared > limit) return INVALID_VALUE;
  uint64_t blocks = (uint64_t)l.grid.x * l.grid.y * l.grid.z;
  uint64_t resident = (uint64_t)occupancy(f, (int)threads, l.shared) * (uint64_t)sim.config.multiprocessors;
  return l.cooperative && blocks > resident ? COOPERATIVE_TOO_LARGE : OK;
}

static int launch(CUfunction fh, Launch l, CUstream sh, void **params, void **extra, const char *what) {
  Function *f = function_of(fh, what);
  Stream *s = stream_of(sh, what);
  if (!f || !s) return INVALID_HANDLE;
  if (f->module->context != current) return INVALID_HANDLE;
  if (extra || (f->kernel->count > 0 && !params)) return INVALID_VALUE;
  if (int e = launch_size(f, l)) return e;
  auto w = std::make_shared<Work>();
  w->what = f->kernel->name;
  bool illegal = false;
  for (int i = 0; i < f->kernel->count; i++) {
    uint64_t v = 0;
    memcpy(&v, params[i], f->kernel->params[i].size);
    l.values.push_back(v);
    illegal |= !argument(*w, f, i, v);
  }
  l.kernel = f->kernel;
  l.order = sim.config.order;
  l.stop = &s->stop;
  l.watchdog_ms = sim.config.watchdog_ms;
  w->shown.kind = 10, w->shown.name = w->what, w->shown.shared = (uint32_t)f->static_shared, w->shown.dynamic = l.shared;
  for (int i = 0; i < 3; i++) w->shown.grid[i] = (&l.grid.x)[i], w->shown.block[i] = (&l.block.x)[i];
  sim.counts.launches++;
  // A graph's kernel counts whenever it runs, any other when it is asked for.
  bool captured = s->capture != nullptr;
  int doomed = captured ? OK : planned();
  uint64_t slow_us = sim.config.slow_launch_us;
  Work *self = w.get(); // the worker holds it while it runs
  w->run = [l = std::move(l), illegal, captured, doomed, slow_us, self](Stream &here) {
    if (slow_us) {
      timespec t{(time_t)(slow_us / 1000000), (long)(slow_us % 1000000) * 1000};
      nanosleep(&t, nullptr);
    }
    std::string name = std::string("kernel ") + l.kernel->name;
    int end = doomed;
    if (captured) {
      std::lock_guard<std::mutex> hold(sim.mu);
      end = planned();
    }
    if (end) return fault(here.context, end, name + ": injected");
    if (illegal) return fault(here.context, ILLEGAL_ADDRESS, name + ": an argument is no memory of this device");
    sim.counts.kernels_run++;
    Launch once = l;
    once.stop = &here.stop; // a graph may run elsewhere than it was captured
    Outcome o = run_launch(once);
    check_damage(*self);
    if (!o.notes.empty()) {
      std::lock_guard<std::mutex> hold(sim.mu);
      for (auto &n : o.notes) sim.violation(n);
    }
    if (o.fault) fault(here.context, o.fault, o.text);
  };
  return submit(s, w);
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                               CUstream s, void **params, void **extra) {
  ENTER(cuLaunchKernel, Context);
  Launch l;
  l.grid = {gx, gy, gz};
  l.block = {bx, by, bz};
  l.shared = shared;
  return launch(f, l, s, params, extra, "cuLaunchKernel");
}

EXPORT CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                          unsigned shared, CUstream s, void **params) {
  ENTER(cuLaunchCooperativeKernel, Context);
  Launch l;
  l.grid = {gx, gy, gz};
  l.block = {bx, by, bz};
  l.shared = shared;
  l.cooperative = true;
  return launch(f, l, s, params, nullptr, "cuLaunchCooperativeKernel");
}

// -- for the simulated libraries -------------------------------------------

// A range that a library call reads or writes.
struct gpuprof_sim_range {
  const void *p;
  size_t bytes;
  int write;
};

// gpuprof_sim_enter is the start of a library call: counted, with the error injected for its name. Below zero it is
// that error, which is then a status of the library with its sign changed; above, an error of the driver.
EXPORT int gpuprof_sim_enter(const char *function) {
  Call call(function, Need::Context);
  return call.planted ? -call.code : call.code;
}

// gpuprof_sim_submit queues run(arg) in the stream, drop(arg) when it is no longer needed.
EXPORT int gpuprof_sim_submit(CUstream h, const char *what, const gpuprof_sim_range *ranges, int n, void (*run)(void *), void *arg,
                              void (*drop)(void *)) {
  std::shared_ptr<void> keep(arg, drop);
  std::lock_guard<std::mutex> hold(sim.mu);
  if (!current) return INVALID_CONTEXT;
  if (current->error) return current->error;
  Stream *s = stream_of(h, what);
  if (!s) return INVALID_HANDLE;
  auto w = std::make_shared<Work>();
  w->what = what;
  for (int i = 0; i < n; i++) {
    std::string wrong = touch(*w, ranges[i].p, ranges[i].bytes, ranges[i].write != 0, "an operand");
    if (wrong.empty()) continue;
    sim.violation(std::string(what) + ": " + wrong);
    return INVALID_VALUE;
  }
  sim.counts.launches++;
  w->run = [keep, run](Stream &) {
    sim.counts.library_run++;
    run(keep.get());
  };
  // A library launches kernels as a program does; what it was asked for is no call of CUDA's.
  w->shown.kind = 10, w->shown.name = what;
  for (int i = 0; i < 3; i++) w->shown.grid[i] = w->shown.block[i] = 1;
  correlation = next_correlation();
  int64_t began = real_ns();
  int code = submit(s, w);
  if (const gpuprof_sim_hooks *told = hooks) told->call("cuLaunchKernel", (uint64_t)began, (uint64_t)real_ns(), correlation, code);
  correlation = 0;
  return code;
}
