// A kernel that does nothing for ns nanoseconds of the device's own clock. One
// thread; the clock ticks at up to 1 us on some GPUs, so the length is right to
// that and not to the core clock's frequency, which changes.
#include "include/device.cuh"

extern "C" __global__ void spin(int ns, int n) {
  if (gp_thread() >= n) return;
  unsigned long long begin = gp_globaltimer();
  while (gp_globaltimer() - begin < (unsigned long long)ns) gp_nanosleep(0);
}
GPUPROF_KERNEL(spin)
