// The executor's own state, shared by the files that make it up.
#pragma once

#include <deque>
#include <memory>

#include <setjmp.h>

#include "exec.h"
#include "fiber.h"

const int error_illegal_address = 700, error_launch_failed = 719, error_launch_timeout = 702;

struct Fiber {
  void *state = nullptr;
  Stack stack;
  gp_dim3 thread{0, 0, 0};
  int rank = 0; // of the thread it runs
  // The warp operation it waits in.
  unsigned mask = 0;
  gp_sim_warp_op op = GP_SIM_SYNC;
  uint64_t value = 0, result = 0;
  int k = 0, width = 32;
  void *asan_stack = nullptr;
};

struct Warp {
  unsigned started = 0, exited = 0, waiting = 0;
  Fiber *lane[32] = {};
};

// One OS thread's executor; its stacks serve launch after launch.
struct Exec {
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Fiber *> idle;
  std::deque<Fiber *> ready;
  std::vector<Fiber *> at_barrier;
  std::vector<Warp> warps;
  std::vector<int> order; // of the threads
  std::vector<char> shared;
  std::vector<void *> pointers;
  std::vector<uint64_t> values;
  const Launch *launch = nullptr;
  Outcome *out = nullptr;
  Fiber *self = nullptr;
  void *main_state = nullptr;
  int threads = 0, next = 0, alive = 0;
  int idle_polls = 0;
  bool running = false, aborted = false;
  sigjmp_buf escape;
  void *signal_stack = nullptr;
  void *asan_main = nullptr;
  const void *main_low = nullptr;
  size_t main_bytes = 0;

  void run(const Launch &, Outcome &, unsigned first, unsigned count);
  void run_block(unsigned index);
  void jump(Fiber *from, Fiber *to);
  void go_on(Fiber *from);
  void thread_done(Fiber *);
  Fiber *take_idle();
  void discard();
  void note(const std::string &s) {
    if (out->notes.size() < 8) out->notes.push_back("kernel " + std::string(launch->kernel->name) + ": " + s);
  }
  [[noreturn]] void abort(int fault, const std::string &text);
};

// The executor of this OS thread, null before its first kernel.
extern thread_local Exec *exec;

std::string at(const gp_dim3 &thread, const gp_dim3 &block);

// warp_try releases the group that lane i of the warp starting at thread first waits for, if it is complete; self, the
// lane that completed it, goes on by itself.
bool warp_try(Exec *, Warp &, int i, int first, Fiber *self);

// need_signal_stack gives this OS thread a stack on which an overflow of its own can be handled.
void need_signal_stack(Exec *);
void free_signal_stack(Exec *);
