#include "../../workloads/device/cuda/include/device.cuh"

// One thread: waits until a time has passed on the device's own clock, then answers the
// requests of a batch. Times are in microseconds and the nanoseconds beyond.
extern "C" __global__ void serving_synthetic(float *__restrict__ out, const float *__restrict__ in, int batch, int us,
                                             int ns, int n) {
  if (gp_thread() >= n) return;
  unsigned long long begin = gp_globaltimer();
  unsigned long long takes = (unsigned long long)us * 1000ull + (unsigned long long)ns;
  while (gp_globaltimer() - begin < takes) gp_nanosleep(0);
  for (int i = 0; i < batch; i++) out[i] = 1.0f - 2.0f * in[i];
}
GPUPROF_KERNEL(serving_synthetic)
