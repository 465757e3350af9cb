// What the simulated cuBLAS and cuDNN share: the way into the simulated driver and the element types.
#pragma once

#include <stddef.h>
#include <string.h>

#include "../../../../workloads/device/cuda/include/device_sim.cuh"

#include "../../../../workloads/device/cuda/include/device_convert.cuh"

#define EXPORT extern "C" __attribute__((visibility("default")))

struct gpuprof_sim_range {
  const void *p;
  size_t bytes;
  int write;
};
// gpuprof_sim_enter starts a call of the library: 0, minus the status that a test planted for it, or the driver's error.
extern "C" int gpuprof_sim_enter(const char *function);
extern "C" int gpuprof_sim_submit(void *stream, const char *what, const gpuprof_sim_range *ranges, int n, void (*run)(void *), void *arg,
                                  void (*drop)(void *));

// submit queues job in the stream. The driver's error number, 0 if it was taken.
template <typename Job>
int submit(void *stream, const char *what, const gpuprof_sim_range *ranges, int n, Job job) {
  return gpuprof_sim_submit(
      stream, what, ranges, n, [](void *p) { (*(Job *)p)(); }, new Job(std::move(job)), [](void *p) { delete (Job *)p; });
}

enum class Element { F32, F64, F16, BF16 };

inline size_t element_bytes(Element e) { return e == Element::F64 ? 8 : e == Element::F32 ? 4 : 2; }

inline double element_load(const void *p, size_t i, Element e) {
  switch (e) {
  case Element::F64:
    return ((const double *)p)[i];
  case Element::F16:
    return gp_from_fp16(((const unsigned short *)p)[i]);
  case Element::BF16:
    return gp_from_bf16(((const unsigned short *)p)[i]);
  default:
    return ((const float *)p)[i];
  }
}

inline void element_store(void *p, size_t i, Element e, double v) {
  switch (e) {
  case Element::F64:
    ((double *)p)[i] = v;
    return;
  case Element::F16:
    ((unsigned short *)p)[i] = gp_to_fp16((float)v);
    return;
  case Element::BF16:
    ((unsigned short *)p)[i] = gp_to_bf16((float)v);
    return;
  default:
    ((float *)p)[i] = (float)v;
  }
}
