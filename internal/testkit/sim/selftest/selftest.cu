// Kernels that test the simulated driver and device.cuh: barriers, shuffles, flags, arithmetic, and what goes wrong.

extern "C" __global__ void sim_axpy(float *__restrict__ y, const float *__restrict__ x, float a, int n) {
  int i = gp_thread();
  if (i < n) y[i] = gp_fma(a, x[i], y[i]);
}
GPUPROF_KERNEL(sim_axpy)

// c = a b, n x n, n a multiple of 16: two barriers for each of n/16 tiles.
extern "C" __global__ void sim_gemm(float *c, const float *a, const float *b, int n) {
  __shared__ float left[16][16];
  __shared__ float right[16][17];
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
  float sum = 0;
  for (int t = 0; t < n; t += 16) {
    left[y][x] = a[row * n + t + x];
    right[y][x] = b[(t + y) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; k++) sum = gp_fma(left[y][k], right[k][x], sum);
    __syncthreads();
  }
  c[row * n + col] = sum;
}
GPUPROF_KERNEL(sim_gemm)

// out[b] is the sum of the block's n values: shuffles within warps, dynamic shared memory between them.
extern "C" __global__ void sim_block_sum(double *out, const float *x, int n) {
  GPUPROF_SHARED(double, part);
  double v = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) v += x[blockIdx.x * n + i];
  v = gp_warp_sum(v);
  if (gp_lane() == 0) part[gp_warp()] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    double sum = 0;
    for (unsigned w = 0; w < (blockDim.x + 31) / 32; w++) sum += part[w];
    out[blockIdx.x] = sum;
  }
}
GPUPROF_KERNEL(sim_block_sum)

// Row r of out, 32 wide, is one kind of shuffle of the lane number.
extern "C" __global__ void sim_shuffles(int *out) {
  int lane = gp_lane(), row = 0;
  const unsigned all = 0xffffffffu;
  out[row++ * 32 + lane] = __shfl_sync(all, lane, 5);
  out[row++ * 32 + lane] = __shfl_sync(all, lane, 3, 8);
  out[row++ * 32 + lane] = __shfl_down_sync(all, lane, 7);
  out[row++ * 32 + lane] = __shfl_down_sync(all, lane, 3, 8);
  out[row++ * 32 + lane] = __shfl_up_sync(all, lane, 2);
  out[row++ * 32 + lane] = __shfl_up_sync(all, lane, 3, 4);
  out[row++ * 32 + lane] = __shfl_xor_sync(all, lane, 9);
  out[row++ * 32 + lane] = (int)__shfl_xor_sync(all, (double)lane, 1);
  out[row++ * 32 + lane] = (int)__ballot_sync(all, lane % 3 == 0);
  out[row++ * 32 + lane] = __any_sync(all, lane == 31) * 2 + __all_sync(all, lane < 31);
  // Two halves of the warp on their own, one of them in a loop of its own length.
  unsigned half = lane < 16 ? 0x0000ffffu : 0xffff0000u;
  int v = lane;
  for (int i = 0; i < (lane < 16 ? 3 : 1); i++) v = __shfl_xor_sync(half, v, 1 << i, 16);
  out[row++ * 32 + lane] = v;
  __syncwarp();
}
GPUPROF_KERNEL(sim_shuffles)

// flags[0] = 1, then waits until flags[1] is set; out counts.
extern "C" __global__ void sim_wait(volatile int *flags, int *out) {
  gp_store_release_system(flags, 1);
  while (gp_load_acquire_system(flags + 1) == 0) {
  }
  *out += 1;
}
GPUPROF_KERNEL(sim_wait)

// Thread 0 waits for a flag that the block's last thread sets: fibers give way in a spin.
extern "C" __global__ void sim_spin_inside(volatile int *flag, int *out) {
  if (threadIdx.x == 0) {
    while (gp_load_acquire(flag) == 0) {
    }
    *out = 7;
  }
  if (threadIdx.x == blockDim.x - 1) gp_store_release(flag, 1);
}
GPUPROF_KERNEL(sim_spin_inside)

extern "C" __global__ void sim_spin_ns(long long *out, int ns) {
  unsigned long long from = gp_globaltimer();
  while (gp_globaltimer() - from < (unsigned long long)ns) {
  }
  *out = (long long)(gp_globaltimer() - from);
}
GPUPROF_KERNEL(sim_spin_ns)

// Every block adds its number, all meet, every block reads the sum.
extern "C" __global__ void sim_grid(int *out, int *sum, unsigned *state) {
  if (threadIdx.x == 0) atomicAdd(sum, (int)blockIdx.x + 1);
  gp_grid_sync(state);
  if (threadIdx.x == 0) out[blockIdx.x] = atomicAdd(sum, 0);
}
GPUPROF_KERNEL(sim_grid)

extern "C" __global__ void sim_atomics(float *f, double *d, int *i, unsigned long long *u, int *high) {
  atomicAdd(f, 1.0f);
  atomicAdd(d, 0.5);
  atomicAdd(i, 2);
  atomicAdd(u, 3ull);
  atomicMax(high, gp_thread());
}
GPUPROF_KERNEL(sim_atomics)

// out[i] is how many threads of the block ran before thread i.
extern "C" __global__ void sim_turns(int *out, int *count) { out[threadIdx.x] = atomicAdd(count, 1); }
GPUPROF_KERNEL(sim_turns)

extern "C" __global__ void sim_widths(double *out, double d, long long l, unsigned u, float f, int i, unsigned short h) {
  out[0] = d + (double)l + u + f + i + h;
}
GPUPROF_KERNEL(sim_widths)

// -- arithmetic --------------------------------------------------------------

extern "C" __global__ void sim_math(float *out, const float *in, int which, int n) {
  int i = gp_thread();
  if (i >= n) return;
  float x = in[i];
  switch (which) {
  case 0: out[i] = gp_expf(x); break;
  case 1: out[i] = gp_tanhf(x); break;
  case 2: out[i] = gp_sigmoidf(x); break;
  case 3: out[i] = gp_sinf(x); break;
  case 4: out[i] = gp_cosf(x); break;
  case 5: out[i] = gp_sqrt(x); break;
  case 6: out[i] = gp_rcp(x); break;
  default: gp_trap();
  }
}
GPUPROF_KERNEL(sim_math)

extern "C" __global__ void sim_math64(double *out, const double *in, int which, int n) {
  int i = gp_thread();
  if (i >= n) return;
  double x = in[i];
  switch (which) {
  case 0: out[i] = gp_exp(x); break;
  case 1: out[i] = gp_sin(x); break;
  case 2: out[i] = gp_cos(x); break;
  case 3: out[i] = gp_sigmoid(x); break;
  case 4: out[i] = gp_sqrt(x); break;
  default: gp_trap();
  }
}
GPUPROF_KERNEL(sim_math64)

// which 0 bf16, 1 fp16, 2 tf32: there gets the rounded bits, back the value they stand for.
extern "C" __global__ void sim_convert(unsigned short *there, float *back, const float *in, int which, int n) {
  int i = gp_thread();
  if (i >= n) return;
  if (which == 0) {
    there[i] = gp_to_bf16(in[i]);
    back[i] = gp_from_bf16(there[i]);
  } else if (which == 1) {
    there[i] = gp_to_fp16(in[i]);
    back[i] = gp_from_fp16(there[i]);
  } else {
    back[i] = gp_to_tf32(in[i]);
  }
}
GPUPROF_KERNEL(sim_convert)

// -- mistakes ------------------------------------------------------------------

extern "C" __global__ void sim_trap(int n) {
  if (gp_thread() == n) gp_trap();
}
GPUPROF_KERNEL(sim_trap)

extern "C" __global__ void sim_poke(float *y, long long at) { y[at] = 1.0f; }
GPUPROF_KERNEL(sim_poke)

// A GPU gives some number, a CPU stops: no kernel should get there.
extern "C" __global__ void sim_divide(int *out, int by) { *out = 7 / by; }
GPUPROF_KERNEL(sim_divide)

// Half of the threads wait at the barrier, the others in a shuffle that names them all.
extern "C" __global__ void sim_hang(int *out) {
  if (threadIdx.x < 16) __syncthreads();
  else out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
}
GPUPROF_KERNEL(sim_hang)

// Half of the warp leaves before the others' shuffle, which names it.
extern "C" __global__ void sim_leave(int *out) {
  if (threadIdx.x >= 16) return;
  out[threadIdx.x] = __shfl_down_sync(0xffffffffu, (int)threadIdx.x, 1);
}
GPUPROF_KERNEL(sim_leave)
