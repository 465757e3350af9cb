// The launch of nothing, for calibration: what a launch itself costs.
#include "include/device.cuh"

extern "C" __global__ void null(int n) { (void)n; }
GPUPROF_KERNEL(null)
