// Running one kernel launch on the CPU: blocks, threads as fibers, barriers, warps.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "../../../../workloads/device/cuda/include/device_sim.cuh"

struct Order {
  enum Kind { Forward, Reverse, Shuffle } kind = Forward;
  uint64_t seed = 1;
};

struct Launch {
  const gp_sim_kernel *kernel = nullptr;
  gp_dim3 grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared = 0; // dynamic bytes
  bool cooperative = false;
  Order order;
  uint64_t watchdog_ms = 0; // how long a kernel may spin without anything happening
  std::vector<uint64_t> values; // parameters, one word each
  std::atomic<bool> *stop = nullptr; // set when the stream is torn down: spinning threads give up
};

// What became of a launch. fault is a CUDA error number, 0 when it ran; text explains it; notes are mistakes that
// a GPU might not have shown.
struct Outcome {
  int fault = 0;
  std::string text;
  std::vector<std::string> notes;
};

Outcome run_launch(const Launch &);

// find_kernel is the kernel compiled in under that name, or null.
const gp_sim_kernel *find_kernel(const char *name);

// duplicate_kernels names the kernels that two files define, "" if there are none.
std::string duplicate_kernels();

// catch_faults makes an invalid access by a kernel end the kernel and not the process; once per process.
void catch_faults();

// free_stacks releases what this OS thread keeps between launches; called at its end.
void free_stacks();
