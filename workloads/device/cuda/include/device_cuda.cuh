// device.cuh for clang's CUDA mode without an SDK: attributes, built-in variables, intrinsics. The host side of
// this compilation does not exist (--cuda-device-only).
#pragma once

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ __attribute__((always_inline)) inline

// GP_FN starts every device function of ours. Tables are constant to the compiler, too: no host writes them.
#define GP_FN static __device__ __forceinline__
#define GPUPROF_KERNEL(name)

// One symbol of bytes for all kernels of a file, since each would otherwise declare it with its own type.
#define GPUPROF_SHARED(type, name)                                               \
  extern __shared__ __attribute__((aligned(16))) unsigned char gp_shared_bytes[]; \
  type *name = reinterpret_cast<type *>(gp_shared_bytes)

typedef __SIZE_TYPE__ size_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;

struct gp_dim3 {
  unsigned x, y, z;
};
GP_FN gp_dim3 gp_thread_index() {
  return {(unsigned)__nvvm_read_ptx_sreg_tid_x(), (unsigned)__nvvm_read_ptx_sreg_tid_y(), (unsigned)__nvvm_read_ptx_sreg_tid_z()};
}
GP_FN gp_dim3 gp_block_index() {
  return {(unsigned)__nvvm_read_ptx_sreg_ctaid_x(), (unsigned)__nvvm_read_ptx_sreg_ctaid_y(), (unsigned)__nvvm_read_ptx_sreg_ctaid_z()};
}
GP_FN gp_dim3 gp_block_size() {
  return {(unsigned)__nvvm_read_ptx_sreg_ntid_x(), (unsigned)__nvvm_read_ptx_sreg_ntid_y(), (unsigned)__nvvm_read_ptx_sreg_ntid_z()};
}
GP_FN gp_dim3 gp_grid_size() {
  return {(unsigned)__nvvm_read_ptx_sreg_nctaid_x(), (unsigned)__nvvm_read_ptx_sreg_nctaid_y(), (unsigned)__nvvm_read_ptx_sreg_nctaid_z()};
}
#define threadIdx (gp_thread_index())
#define blockIdx (gp_block_index())
#define blockDim (gp_block_size())
#define gridDim (gp_grid_size())
#define warpSize 32

struct __attribute__((aligned(8))) float2 {
  float x, y;
};
struct __attribute__((aligned(16))) float4 {
  float x, y, z, w;
};
struct __attribute__((aligned(8))) int2 {
  int x, y;
};
struct __attribute__((aligned(16))) int4 {
  int x, y, z, w;
};

// Warp level. __syncthreads is the compiler's own and stays undeclared here.
GP_FN void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
GP_FN unsigned __ballot_sync(unsigned mask, int predicate) { return (unsigned)__nvvm_vote_ballot_sync(mask, predicate != 0); }
GP_FN int __any_sync(unsigned mask, int predicate) { return __nvvm_vote_any_sync(mask, predicate != 0); }
GP_FN int __all_sync(unsigned mask, int predicate) { return __nvvm_vote_all_sync(mask, predicate != 0); }

// gp_shuffle_control: what the instruction calls c, the segment mask and the clamp of a shuffle over width lanes.
GP_FN int gp_shuffle_control(int width, int clamp) { return ((32 - width) << 8) | clamp; }

#define GP_SHUFFLE(NAME, KIND, ARG, CLAMP)                                                                \
  GP_FN int NAME(unsigned mask, int v, ARG k, int width = 32) {                                           \
    return __nvvm_shfl_sync_##KIND##_i32(mask, v, (int)k, gp_shuffle_control(width, CLAMP));              \
  }                                                                                                       \
  GP_FN unsigned NAME(unsigned mask, unsigned v, ARG k, int width = 32) {                                 \
    return (unsigned)NAME(mask, (int)v, k, width);                                                        \
  }                                                                                                       \
  GP_FN float NAME(unsigned mask, float v, ARG k, int width = 32) {                                       \
    return __nvvm_shfl_sync_##KIND##_f32(mask, v, (int)k, gp_shuffle_control(width, CLAMP));              \
  }                                                                                                       \
  GP_FN long long NAME(unsigned mask, long long v, ARG k, int width = 32) {                               \
    unsigned lo = NAME(mask, (unsigned)v, k, width), hi = NAME(mask, (unsigned)((unsigned long long)v >> 32), k, width); \
    return (long long)(((unsigned long long)hi << 32) | lo);                                              \
  }                                                                                                       \
  GP_FN double NAME(unsigned mask, double v, ARG k, int width = 32) {                                     \
    return __builtin_bit_cast(double, NAME(mask, __builtin_bit_cast(long long, v), k, width));            \
  }
GP_SHUFFLE(__shfl_sync, idx, int, 31)
GP_SHUFFLE(__shfl_down_sync, down, unsigned, 31)
GP_SHUFFLE(__shfl_up_sync, up, unsigned, 0)
GP_SHUFFLE(__shfl_xor_sync, bfly, int, 31)
#undef GP_SHUFFLE

// Atomics: relaxed, device scope. Each returns the value before.
GP_FN float atomicAdd(float *p, float v) { return __nvvm_atom_add_gen_f(p, v); }
GP_FN double atomicAdd(double *p, double v) { return __nvvm_atom_add_gen_d(p, v); }
GP_FN int atomicAdd(int *p, int v) { return __nvvm_atom_add_gen_i(p, v); }
GP_FN unsigned atomicAdd(unsigned *p, unsigned v) { return (unsigned)__nvvm_atom_add_gen_i((int *)p, (int)v); }
GP_FN unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) {
  return (unsigned long long)__nvvm_atom_add_gen_ll((long long *)p, (long long)v);
}
GP_FN int atomicMax(int *p, int v) { return __nvvm_atom_max_gen_i(p, v); }
GP_FN int atomicMin(int *p, int v) { return __nvvm_atom_min_gen_i(p, v); }
GP_FN int atomicExch(int *p, int v) { return __nvvm_atom_xchg_gen_i(p, v); }
GP_FN unsigned atomicExch(unsigned *p, unsigned v) { return (unsigned)__nvvm_atom_xchg_gen_i((int *)p, (int)v); }
GP_FN int atomicCAS(int *p, int was, int v) { return __nvvm_atom_cas_gen_i(p, was, v); }
GP_FN unsigned atomicCAS(unsigned *p, unsigned was, unsigned v) {
  return (unsigned)__nvvm_atom_cas_gen_i((int *)p, (int)was, (int)v);
}

// Loads through the read-only path.
GP_FN float __ldg(const float *p) { return __nvvm_ldg_f(p); }
GP_FN double __ldg(const double *p) { return __nvvm_ldg_d(p); }
GP_FN int __ldg(const int *p) { return __nvvm_ldg_i(p); }
GP_FN unsigned __ldg(const unsigned *p) { return __nvvm_ldg_ui(p); }
GP_FN float4 __ldg(const float4 *p) {
  typedef float vector __attribute__((ext_vector_type(4)));
  vector v = __nvvm_ldg_f4((const vector *)p);
  return {v[0], v[1], v[2], v[3]};
}
GP_FN float2 __ldg(const float2 *p) {
  typedef float vector __attribute__((ext_vector_type(2)));
  vector v = __nvvm_ldg_f2((const vector *)p);
  return {v[0], v[1]};
}

// gp_prefetch asks for the line at p to come to the second-level cache. The compiler has no built-in for it, so this
// is the one instruction written out here; the assembler checks it with all the rest.
GP_FN void gp_prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// Fences and flags. The fence and a volatile access together order as acquire and release do, and need no
// instruction that this compiler leaves unchecked.
GP_FN void __threadfence() { __nvvm_membar_gl(); }
GP_FN void __threadfence_block() { __nvvm_membar_cta(); }
GP_FN void __threadfence_system() { __nvvm_membar_sys(); }
GP_FN int gp_load_acquire_system(const volatile int *p) {
  int v = *p;
  __nvvm_membar_sys();
  return v;
}
GP_FN void gp_store_release_system(volatile int *p, int v) {
  __nvvm_membar_sys();
  *p = v;
}
GP_FN int gp_load_acquire(const volatile int *p) {
  int v = *p;
  __nvvm_membar_gl();
  return v;
}
GP_FN unsigned gp_load_acquire(const volatile unsigned *p) {
  unsigned v = *p;
  __nvvm_membar_gl();
  return v;
}
GP_FN void gp_store_release(volatile int *p, int v) {
  __nvvm_membar_gl();
  *p = v;
}

// Clocks: cycles of this multiprocessor, and nanoseconds of the whole device (its tick is coarser on many GPUs).
GP_FN long long clock64() { return (long long)__nvvm_read_ptx_sreg_clock64(); }
GP_FN unsigned long long gp_globaltimer() { return (unsigned long long)__nvvm_read_ptx_sreg_globaltimer(); }
GP_FN void gp_nanosleep(unsigned ns) { __nvvm_nanosleep((int)ns); }
GP_FN unsigned gp_smid() { return (unsigned)__nvvm_read_ptx_sreg_smid(); }
GP_FN void gp_trap() { __builtin_trap(); }

// Exact or correctly rounded arithmetic.
GP_FN float gp_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
GP_FN double gp_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
GP_FN float gp_sqrt(float x) { return __nvvm_sqrt_rn_f(x); }
GP_FN double gp_sqrt(double x) { return __nvvm_sqrt_rn_d(x); }
GP_FN float gp_rcp(float x) { return __nvvm_rcp_rn_f(x); }
GP_FN double gp_rcp(double x) { return __nvvm_rcp_rn_d(x); }
GP_FN float gp_abs(float x) { return __builtin_fabsf(x); }
GP_FN double gp_abs(double x) { return __builtin_fabs(x); }
GP_FN int gp_abs(int x) { return x < 0 ? -x : x; }
GP_FN float gp_min(float a, float b) { return __builtin_fminf(a, b); }
GP_FN double gp_min(double a, double b) { return __builtin_fmin(a, b); }
GP_FN float gp_max(float a, float b) { return __builtin_fmaxf(a, b); }
GP_FN double gp_max(double a, double b) { return __builtin_fmax(a, b); }
GP_FN float gp_floor(float x) { return __builtin_floorf(x); }
GP_FN double gp_floor(double x) { return __builtin_floor(x); }
GP_FN float gp_rint(float x) { return __builtin_rintf(x); }
GP_FN double gp_rint(double x) { return __builtin_rint(x); }
GP_FN int gp_min(int a, int b) { return a < b ? a : b; }
GP_FN int gp_max(int a, int b) { return a > b ? a : b; }
GP_FN long long gp_min(long long a, long long b) { return a < b ? a : b; }
GP_FN long long gp_max(long long a, long long b) { return a > b ? a : b; }

// The bits of a float and back.
GP_FN unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
GP_FN float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
GP_FN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
GP_FN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
GP_FN long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
GP_FN double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
