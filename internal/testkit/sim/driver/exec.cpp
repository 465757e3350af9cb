// Threads of a block are fibers of one OS thread. A fiber takes threads that have not started one after another,
// so a kernel without barriers is one plain loop on one stack; only where a thread waits does another fiber
// go on. Whoever arrives last at a barrier or warp operation releases the others.
#include <mutex>
#include <thread>

#include <stdio.h>
#include <time.h>

#include "exec_internal.h"

#ifdef GP_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

thread_local gp_sim_context gp_sim_here;
GP_SIM_API gp_sim_context &gp_sim_at();
gp_sim_context &gp_sim_at() { return gp_sim_here; }

static gp_sim_kernel *kernels; // zero before any constructor runs

void gp_sim_register(gp_sim_kernel *k) {
  k->next = kernels;
  kernels = k;
}

const gp_sim_kernel *find_kernel(const char *name) {
  for (gp_sim_kernel *k = kernels; k; k = k->next)
    if (strcmp(k->name, name) == 0) return k;
  return nullptr;
}

// gpuprof_sim_parameters writes the sizes of a kernel's parameters, for what makes PTX of a kernel compiled later. It
// returns their number, -1 for a name that nothing registered.
extern "C" GP_SIM_API int gpuprof_sim_parameters(const char *name, unsigned char *sizes, int room) {
  const gp_sim_kernel *k = find_kernel(name);
  for (int i = 0; k && i < k->count && i < room; i++) sizes[i] = k->params[i].size;
  return k ? k->count : -1;
}

std::string duplicate_kernels() {
  std::string out;
  for (gp_sim_kernel *k = kernels; k; k = k->next)
    for (gp_sim_kernel *o = k->next; o; o = o->next)
      if (strcmp(k->name, o->name) == 0)
        out += (out.empty() ? "" : "; ") + std::string(k->name) + " in " + o->file + " and " + k->file;
  return out;
}

thread_local Exec *exec;

std::string at(const gp_dim3 &t, const gp_dim3 &b) {
  char s[96];
  snprintf(s, sizeof s, "thread (%u,%u,%u) of block (%u,%u,%u)", t.x, t.y, t.z, b.x, b.y, b.z);
  return s;
}

static Exec *own_exec() {
  if (!exec) exec = new Exec;
  return exec;
}

// jump leaves from (null: the executor itself) for to (null: likewise). AddressSanitizer is told of each change of stack.
void Exec::jump(Fiber *from, Fiber *to) {
  void **save = from ? &from->state : &main_state;
  void *target = to ? to->state : main_state;
  self = to;
#ifdef GP_ASAN
  __sanitizer_start_switch_fiber(from ? &from->asan_stack : &asan_main, to ? to->stack.low : main_low,
                                 to ? to->stack.bytes : main_bytes);
#endif
  gp_fiber_jump(save, target);
#ifdef GP_ASAN
  __sanitizer_finish_switch_fiber(from ? from->asan_stack : asan_main, nullptr, nullptr);
#endif
  self = from;
  if (from) gp_sim_here.thread = from->thread;
}

static void fiber_main() {
  Exec *e = exec;
#ifdef GP_ASAN
  if (e->main_low == nullptr)
    __sanitizer_finish_switch_fiber(nullptr, &e->main_low, &e->main_bytes);
  else
    __sanitizer_finish_switch_fiber(nullptr, nullptr, nullptr);
#endif
  for (;;) {
    Fiber *f = e->self;
    const gp_dim3 size = gp_sim_here.block_size;
    while (e->next < e->threads) {
      unsigned rank = (unsigned)(e->order.empty() ? e->next : e->order[(size_t)e->next]);
      e->next++;
      f->rank = (int)rank;
      f->thread = {rank % size.x, rank / size.x % size.y, rank / (size.x * size.y)};
      gp_sim_here.thread = f->thread;
      e->warps[rank >> 5].started |= 1u << (rank & 31);
      e->launch->kernel->invoke(e->pointers.data());
      e->thread_done(f);
    }
    e->idle.push_back(f);
    e->go_on(f);
  }
}

Fiber *Exec::take_idle() {
  if (idle.empty()) {
    auto f = std::make_unique<Fiber>();
    f->stack = stack_new();
    if (!f->stack.low) return nullptr;
    f->state = fiber_prepare(f->stack, fiber_main);
    fibers.push_back(std::move(f));
    return fibers.back().get();
  }
  Fiber *f = idle.back();
  idle.pop_back();
  return f;
}

// go_on lets somebody else run: a thread that has not started, else the one ready longest, else the block is over or stuck.
void Exec::go_on(Fiber *from) {
  if (next < threads) {
    Fiber *f = take_idle();
    if (!f) abort(error_launch_failed, "no memory for the stacks of the block's threads");
    if (f != from) jump(from, f);
    return;
  }
  if (!ready.empty()) {
    Fiber *f = ready.front();
    ready.pop_front();
    if (f != from) jump(from, f);
    return;
  }
  if (alive > 0) {
    char s[160];
    snprintf(s, sizeof s, "kernel %s hangs: %d of %d threads of a block wait at a barrier or warp operation that the others never reach",
             launch->kernel->name, alive, threads);
    abort(error_launch_timeout, s);
  }
  jump(from, nullptr);
}

void Exec::thread_done(Fiber *f) {
  Warp &w = warps[(unsigned)f->rank >> 5];
  w.exited |= 1u << (f->rank & 31);
  alive--;
  for (int i = 0; i < 32; i++)
    if ((w.waiting >> i & 1) && (w.lane[i]->mask >> (f->rank & 31) & 1)) {
      note("a lane leaves the kernel while a warp operation names it in its mask");
      warp_try(this, w, i, f->rank & ~31, nullptr);
      break;
    }
  // Those who have left count as arrived at the block's barrier, as on a GPU.
  if (!at_barrier.empty() && (int)at_barrier.size() == alive) {
    for (Fiber *b : at_barrier) ready.push_back(b);
    at_barrier.clear();
  }
}

// discard drops every fiber's state after an abort: each starts afresh next time.
void Exec::discard() {
  idle.clear();
  ready.clear();
  at_barrier.clear();
  for (auto &f : fibers) {
#ifdef GP_ASAN
    ASAN_UNPOISON_MEMORY_REGION(f->stack.low, f->stack.bytes);
#endif
    f->state = fiber_prepare(f->stack, fiber_main);
    idle.push_back(f.get());
  }
}

// abort ends the launch from inside a fiber; kernels own nothing, so their stacks are simply left.
void Exec::abort(int fault, const std::string &text) {
  if (out->fault == 0) {
    out->fault = fault;
    out->text = text;
  }
  aborted = true;
  Fiber *from = self;
  jump(from, nullptr);
  __builtin_unreachable();
}

void Exec::run_block(unsigned index) {
  const gp_dim3 grid = launch->grid;
  gp_sim_here.block = {index % grid.x, index / grid.x % grid.y, index / (grid.x * grid.y)};
  next = 0;
  alive = threads;
  std::fill(warps.begin(), warps.end(), Warp{});
  // What a block finds in shared memory is what the last one left; all ones are NaN as floats.
  if (!shared.empty()) memset(shared.data(), 0xff, shared.size());
  Fiber *f = take_idle();
  if (!f) {
    out->fault = error_launch_failed;
    out->text = "no memory for a thread's stack";
    aborted = true;
    return;
  }
  jump(nullptr, f);
}

// ordered is the order of n threads or blocks; empty is forward.
static std::vector<int> ordered(const Order &o, int n) {
  std::vector<int> all;
  if (o.kind == Order::Forward) return all;
  all.resize((size_t)n);
  for (int i = 0; i < n; i++) all[(size_t)i] = n - 1 - i;
  uint64_t s = o.seed * 0x9e3779b97f4a7c15ull + 1;
  for (int i = n - 1; i > 0 && o.kind == Order::Shuffle; i--) {
    s = s * 6364136223846793005ull + 1442695040888963407ull;
    std::swap(all[(size_t)i], all[(size_t)((s >> 33) % (uint64_t)(i + 1))]);
  }
  return all;
}

void Exec::run(const Launch &l, Outcome &o, unsigned first, unsigned count) {
  launch = &l;
  out = &o;
  aborted = false;
  idle_polls = 0;
  threads = (int)(l.block.x * l.block.y * l.block.z);
  warps.resize((size_t)(threads + 31) / 32);
  shared.resize(l.shared ? l.shared + 16 : 0);
  values = l.values;
  pointers.resize(values.size() + 1);
  for (size_t i = 0; i < values.size(); i++) pointers[i] = &values[i];
  order = ordered(l.order, threads);
  std::vector<int> blocks = ordered(l.order, (int)count);
  uintptr_t base = ((uintptr_t)shared.data() + 15) & ~(uintptr_t)15;
  gp_sim_here = {{0, 0, 0}, {0, 0, 0}, l.block, l.grid, (void *)(l.shared ? base : 0)};
  running = true;
  // An invalid access comes back here out of the signal handler.
  if (sigsetjmp(escape, 1) == 0) {
    for (unsigned b = 0; b < count && !aborted; b++) run_block(first + (blocks.empty() ? b : (unsigned)blocks[b]));
  } else {
    self = nullptr;
    aborted = true;
  }
  running = false;
  if (aborted) discard();
}

void gp_sim_barrier() {
  Exec *e = exec;
  Fiber *f = e->self;
  if ((int)e->at_barrier.size() + 1 == e->alive) {
    for (Fiber *b : e->at_barrier) e->ready.push_back(b);
    e->at_barrier.clear();
    return;
  }
  e->at_barrier.push_back(f);
  e->go_on(f);
}

void free_stacks() {
  Exec *e = exec;
  if (!e) return;
  for (auto &f : e->fibers) stack_free(f->stack);
  free_signal_stack(e);
  delete e;
  exec = nullptr;
}

// -- launches --------------------------------------------------------------

static Outcome run_cooperative(const Launch &l, unsigned blocks) {
  Outcome all;
  std::mutex mu;
  std::atomic<bool> stop{false};
  Launch shared = l;
  shared.stop = &stop;
  std::vector<std::thread> threads;
  std::atomic<unsigned> left{blocks};
  for (unsigned b = 0; b < blocks; b++) {
    threads.emplace_back([&, b] {
      Exec *e = own_exec();
      need_signal_stack(e);
      Outcome o;
      e->run(shared, o, b, 1);
      {
        std::lock_guard<std::mutex> hold(mu);
        if (o.fault && (!all.fault || all.fault == error_launch_timeout)) all.fault = o.fault, all.text = o.text;
        for (auto &n : o.notes)
          if (all.notes.size() < 8) all.notes.push_back(n);
      }
      // A block that died keeps the others from ever meeting it.
      if (o.fault) stop = true;
      left--;
      free_stacks();
    });
  }
  while (left > 0) {
    if (l.stop && *l.stop) stop = true;
    timespec t{0, 50000};
    nanosleep(&t, nullptr);
  }
  for (auto &t : threads) t.join();
  return all;
}

Outcome run_launch(const Launch &l) {
  unsigned blocks = l.grid.x * l.grid.y * l.grid.z;
  if (l.cooperative) return run_cooperative(l, blocks);
  Outcome o;
  Exec *e = own_exec();
  need_signal_stack(e);
  e->run(l, o, 0, blocks);
  return o;
}
