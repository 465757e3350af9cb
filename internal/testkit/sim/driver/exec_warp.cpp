// Warp operations, and waiting in a spin.
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "exec_internal.h"

namespace {

// source is the lane that lane reads in a shuffle; see the PTX manual, shfl.sync.
int source(const Fiber *f, int lane) {
  int last = lane | (f->width - 1), first = lane & ~(f->width - 1), from = lane;
  switch (f->op) {
  case GP_SIM_IDX:
    return first | (f->k & (f->width - 1));
  case GP_SIM_DOWN:
    from = lane + f->k;
    return from > last ? lane : from;
  case GP_SIM_UP:
    from = lane - f->k;
    return from < first ? lane : from;
  case GP_SIM_XOR:
    from = lane ^ f->k;
    return from > last ? lane : from;
  default:
    return lane;
  }
}

// warp_release computes what every lane of the group gets; values of lanes outside it are undefined, here a NaN.
// self, the lane that completed the group, goes on by itself; the others are made ready.
void warp_release(Exec *e, Warp &w, unsigned group, Fiber *self) {
  unsigned ballot = 0;
  bool mixed = false;
  gp_sim_warp_op op = w.lane[__builtin_ctz(group)]->op;
  for (int i = 0; i < 32; i++)
    if (group >> i & 1) {
      ballot |= (unsigned)(w.lane[i]->value & 1) << i;
      mixed |= w.lane[i]->op != op;
    }
  if (mixed) e->note("lanes of one warp wait in different warp operations under one mask");
  for (int i = 0; i < 32; i++) {
    if (!(group >> i & 1)) continue;
    Fiber *f = w.lane[i];
    if (f->op == GP_SIM_BALLOT) {
      f->result = ballot;
    } else if (f->op != GP_SIM_SYNC) {
      int from = source(f, i);
      f->result = from >= 0 && from < 32 && (group >> from & 1) ? w.lane[from]->value : 0x7ff7dead7fc0deadull;
    }
    if (f != self) e->ready.push_back(f);
  }
  w.waiting &= ~group;
}

} // namespace

bool warp_try(Exec *e, Warp &w, int i, int first, Fiber *self) {
  int lanes = e->threads - first;
  unsigned exist = lanes >= 32 ? 0xffffffffu : (1u << lanes) - 1u, mask = w.lane[i]->mask;
  unsigned group = (mask & exist & ~w.exited) | 1u << i;
  if ((w.waiting & group) != group) return false;
  for (int k = 0; k < 32; k++)
    if ((group >> k & 1) && w.lane[k]->mask != mask) return false;
  warp_release(e, w, group, self);
  return true;
}

uint64_t gp_sim_warp(unsigned mask, gp_sim_warp_op op, uint64_t value, int k, int width) {
  Exec *e = exec;
  Fiber *f = e->self;
  int lane = f->rank & 31;
  Warp &w = e->warps[(size_t)f->rank >> 5];
  if (!(mask >> lane & 1)) e->note("a lane is not in the mask of the warp operation it takes part in");
  if (mask & w.exited) e->note("the mask of a warp operation names a lane that has left the kernel");
  f->mask = mask, f->op = op, f->value = value, f->k = k, f->width = width;
  w.lane[lane] = f;
  w.waiting |= 1u << lane;
  if (!warp_try(e, w, lane, f->rank & ~31, f)) e->go_on(f);
  return f->result;
}

void gp_sim_yield() {
  Exec *e = exec;
  if (!e || !e->running) return;
  if (e->launch->stop && e->launch->stop->load(std::memory_order_relaxed))
    e->abort(error_launch_timeout, std::string("kernel ") + e->launch->kernel->name + " was still spinning when its stream was torn down");
  Fiber *f = e->self;
  if (e->next < e->threads || !e->ready.empty()) {
    e->ready.push_back(f);
    e->go_on(f);
    return;
  }
  // Nobody else in this block: wait for the host or another stream, first eagerly, then without burning a core.
  if (++e->idle_polls < 200) {
    sched_yield();
  } else {
    timespec t{0, 20000};
    nanosleep(&t, nullptr);
    // Each sleep is at least 20 us, so this many of them are at least the limit.
    if (e->launch->watchdog_ms && (uint64_t)e->idle_polls > 50 * e->launch->watchdog_ms)
      e->abort(error_launch_timeout, std::string("kernel ") + e->launch->kernel->name + " spins on a flag that nobody sets");
  }
}

void gp_sim_trap() {
  exec->abort(error_launch_failed, "kernel " + std::string(exec->launch->kernel->name) + ": trap in " +
                                       at(gp_sim_here.thread, gp_sim_here.block));
}

long long gp_sim_clock() {
  Exec *e = exec;
  if (e && e->running && (e->next < e->threads || !e->ready.empty())) gp_sim_yield();
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}
