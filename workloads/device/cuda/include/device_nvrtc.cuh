// device.cuh for NVRTC, which compiles at run time what no list of ours has. Built-in variables, vectors, shuffles,
// atomics and the bits of a float are the compiler's own; what is here are the helpers of gpuprof's dialect, by the
// same rules as in device_cuda.cuh.
#pragma once

#define GP_FN static __device__ __forceinline__
#define GPUPROF_KERNEL(name)
#define GPUPROF_SHARED(type, name)                              \
  extern __shared__ __align__(16) unsigned char gp_shared_bytes[]; \
  type *name = reinterpret_cast<type *>(gp_shared_bytes)

typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long long uint64_t;

GP_FN void gp_prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

GP_FN int gp_load_acquire_system(const volatile int *p) {
  int v = *p;
  __threadfence_system();
  return v;
}
GP_FN void gp_store_release_system(volatile int *p, int v) {
  __threadfence_system();
  *p = v;
}
GP_FN int gp_load_acquire(const volatile int *p) {
  int v = *p;
  __threadfence();
  return v;
}
GP_FN unsigned gp_load_acquire(const volatile unsigned *p) {
  unsigned v = *p;
  __threadfence();
  return v;
}
GP_FN void gp_store_release(volatile int *p, int v) {
  __threadfence();
  *p = v;
}

GP_FN void gp_nanosleep(unsigned ns) { __nanosleep(ns); }
GP_FN void gp_trap() { __trap(); }

GP_FN float gp_fma(float a, float b, float c) { return __fmaf_rn(a, b, c); }
GP_FN double gp_fma(double a, double b, double c) { return __fma_rn(a, b, c); }
GP_FN float gp_sqrt(float x) { return __fsqrt_rn(x); }
GP_FN double gp_sqrt(double x) { return __dsqrt_rn(x); }
GP_FN float gp_rcp(float x) { return __frcp_rn(x); }
GP_FN double gp_rcp(double x) { return __drcp_rn(x); }
GP_FN float gp_abs(float x) { return fabsf(x); }
GP_FN double gp_abs(double x) { return fabs(x); }
GP_FN int gp_abs(int x) { return x < 0 ? -x : x; }
GP_FN float gp_min(float a, float b) { return fminf(a, b); }
GP_FN double gp_min(double a, double b) { return fmin(a, b); }
GP_FN float gp_max(float a, float b) { return fmaxf(a, b); }
GP_FN double gp_max(double a, double b) { return fmax(a, b); }
GP_FN float gp_floor(float x) { return floorf(x); }
GP_FN double gp_floor(double x) { return floor(x); }
GP_FN float gp_rint(float x) { return rintf(x); }
GP_FN double gp_rint(double x) { return rint(x); }
GP_FN int gp_min(int a, int b) { return a < b ? a : b; }
GP_FN int gp_max(int a, int b) { return a > b ? a : b; }
GP_FN long long gp_min(long long a, long long b) { return a < b ? a : b; }
GP_FN long long gp_max(long long a, long long b) { return a > b ? a : b; }
