// What the simulated driver tells the simulated CUPTI, which sets these hooks. Both are built from this file.
#pragma once

#include <stdint.h>

// One operation on the device, in CUPTI's numbers. Times are ns of CLOCK_REALTIME, as CUPTI's are.
struct gpuprof_sim_operation {
  int kind; // 1 a copy, 2 a fill, 10 a kernel, 51 a graph as a whole
  const char *name;
  uint64_t start, end, bytes;
  uint32_t corr, device, context, stream;
  uint32_t grid[3], block[3], shared, dynamic;
  uint8_t copy, from, to; // kind of copy, kinds of memory
  uint16_t memory;        // of a fill
  uint32_t value, graph;  // graph 0: none
  uint64_t node;          // in the graph
};

struct gpuprof_sim_device {
  uint32_t number, sms, major, minor;
  uint64_t memory, kilobytes_per_s;
  unsigned char uuid[16];
  const char *name;
};

struct gpuprof_sim_hooks {
  void (*call)(const char *name, uint64_t start, uint64_t end, uint32_t corr, int result); // in the thread that called
  void (*operation)(const struct gpuprof_sim_operation *);                                        // in the stream's thread
  void (*device)(const struct gpuprof_sim_device *);
  void (*init_finished)(void);
  void (*context_ends)(void);
};
