// device.cuh for the simulated driver: the same kernels as plain C++ on the CPU. A thread is a fiber that is
// started when it is reached and set aside only where it waits (barrier, shuffle, vote, spin), so a kernel that
// never waits runs as a plain loop. All threads of a block run on one OS thread; blocks run one after the other
// except in a cooperative launch, where each has an OS thread of its own.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#define __host__
#define __device__
#define __global__ __attribute__((weak)) // two kernels of one name are reported when the driver starts, not by the linker
#define __shared__ static thread_local
#define __constant__ static
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define GP_FN static inline __attribute__((unused))

struct gp_dim3 {
  unsigned x, y, z;
};

// What the running thread is; the executor sets it before each switch. Fibers never change their OS thread.
struct gp_sim_context {
  gp_dim3 thread, block, block_size, grid_size;
  void *shared;
};
#define GP_SIM_API __attribute__((visibility("default"))) // for kernels that are compiled later, see nvrtc.cpp
#ifdef GPUPROF_SIM_MODULE
GP_SIM_API gp_sim_context &gp_sim_at();
#define gp_sim_here (gp_sim_at())
#else
extern thread_local gp_sim_context gp_sim_here __attribute__((visibility("hidden")));
#endif
#define threadIdx (gp_sim_here.thread)
#define blockIdx (gp_sim_here.block)
#define blockDim (gp_sim_here.block_size)
#define gridDim (gp_sim_here.grid_size)
#define warpSize 32

// The executor's side, in sim/exec.cpp.
enum gp_sim_warp_op { GP_SIM_IDX, GP_SIM_DOWN, GP_SIM_UP, GP_SIM_XOR, GP_SIM_BALLOT, GP_SIM_SYNC };
GP_SIM_API void gp_sim_barrier();
GP_SIM_API uint64_t gp_sim_warp(unsigned mask, gp_sim_warp_op op, uint64_t value, int k, int width);
GP_SIM_API void gp_sim_yield();
[[noreturn]] GP_SIM_API void gp_sim_trap();
GP_SIM_API long long gp_sim_clock();

// Registration. A parameter's kind tells the race check what the kernel does to the buffer.
enum gp_sim_kind : unsigned char { GP_SIM_SCALAR, GP_SIM_READ, GP_SIM_WRITE, GP_SIM_FLAG };
struct gp_sim_param {
  unsigned char size;
  gp_sim_kind kind;
};
struct gp_sim_kernel {
  const char *name, *file;
  const gp_sim_param *params;
  int count;
  void (*function)();
  void (*unpack)(void (*function)(), void **params);
  gp_sim_kernel *next;
  void invoke(void **p) const { unpack(function, p); }
};
GP_SIM_API void gp_sim_register(gp_sim_kernel *);

template <typename T>
constexpr gp_sim_param gp_sim_describe() {
  using P = std::remove_pointer_t<T>;
  if (!std::is_pointer<T>::value) return {(unsigned char)sizeof(T), GP_SIM_SCALAR};
  if (std::is_volatile<P>::value) return {8, GP_SIM_FLAG};
  return {8, std::is_const<P>::value ? GP_SIM_READ : GP_SIM_WRITE};
}
template <typename... A>
struct gp_sim_signature {
  static constexpr gp_sim_param params[sizeof...(A) + 1] = {gp_sim_describe<A>()..., {0, GP_SIM_SCALAR}};
  template <size_t... I>
  static void call(void (*f)(A...), void **p, std::index_sequence<I...>) {
    (void)p;
    f(*static_cast<std::remove_cv_t<A> *>(p[I])...);
  }
  static void unpack(void (*f)(), void **p) { call(reinterpret_cast<void (*)(A...)>(f), p, std::index_sequence_for<A...>{}); }
};
// The parameter list is deduced from the function, which may share its name with helpers that return something.
struct gp_sim_registrar {
  gp_sim_kernel kernel;
  template <typename... A>
  gp_sim_registrar(const char *name, const char *file, void (*f)(A...))
      : kernel{name, file, gp_sim_signature<A...>::params, (int)sizeof...(A), reinterpret_cast<void (*)()>(f), gp_sim_signature<A...>::unpack, nullptr} {
    gp_sim_register(&kernel);
  }
};
#define GPUPROF_KERNEL(name) static gp_sim_registrar gp_sim_registrar_##name(#name, __FILE__, name);
#define GPUPROF_SHARED(type, name) type *name = static_cast<type *>(gp_sim_here.shared)

struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};

GP_FN void __syncthreads() { gp_sim_barrier(); }
GP_FN void __syncwarp(unsigned mask = 0xffffffffu) { gp_sim_warp(mask, GP_SIM_SYNC, 0, 0, 32); }
GP_FN unsigned __ballot_sync(unsigned mask, int p) { return (unsigned)gp_sim_warp(mask, GP_SIM_BALLOT, p != 0, 0, 32); }
GP_FN int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
GP_FN int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, p == 0) == 0; }

template <typename T>
GP_FN T gp_sim_shuffle(unsigned mask, gp_sim_warp_op op, T v, int k, int width) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  uint64_t bits = 0;
  memcpy(&bits, &v, sizeof v);
  bits = gp_sim_warp(mask, op, bits, k, width);
  memcpy(&v, &bits, sizeof v);
  return v;
}
#define GP_SHUFFLE(NAME, OP, ARG)                                   \
  template <typename T>                                             \
  GP_FN T NAME(unsigned mask, T v, ARG k, int width = 32) {         \
    return gp_sim_shuffle<T>(mask, OP, v, (int)k, width);           \
  }
GP_SHUFFLE(__shfl_sync, GP_SIM_IDX, int)
GP_SHUFFLE(__shfl_down_sync, GP_SIM_DOWN, unsigned)
GP_SHUFFLE(__shfl_up_sync, GP_SIM_UP, unsigned)
GP_SHUFFLE(__shfl_xor_sync, GP_SIM_XOR, int)
#undef GP_SHUFFLE

// Atomics: other streams and, in a cooperative launch, other blocks run at the same time.
template <typename T, typename F>
GP_FN T gp_sim_update(T *p, F f) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  U *q = reinterpret_cast<U *>(p), was = __atomic_load_n(q, __ATOMIC_RELAXED), now;
  T old, next;
  do {
    memcpy(&old, &was, sizeof old);
    next = f(old);
    memcpy(&now, &next, sizeof now);
  } while (!__atomic_compare_exchange_n(q, &was, now, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
GP_FN float atomicAdd(float *p, float v) {
  return gp_sim_update(p, [v](float x) { return x + v; });
}
GP_FN double atomicAdd(double *p, double v) {
  return gp_sim_update(p, [v](double x) { return x + v; });
}
GP_FN int atomicAdd(int *p, int v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
GP_FN unsigned atomicAdd(unsigned *p, unsigned v) { return __atomic_fetch_add(p, v, __ATOMIC_RELAXED); }
GP_FN unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) {
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
GP_FN int atomicMax(int *p, int v) {
  return gp_sim_update(p, [v](int x) { return x > v ? x : v; });
}
GP_FN int atomicMin(int *p, int v) {
  return gp_sim_update(p, [v](int x) { return x < v ? x : v; });
}
GP_FN int atomicExch(int *p, int v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
GP_FN unsigned atomicExch(unsigned *p, unsigned v) { return __atomic_exchange_n(p, v, __ATOMIC_RELAXED); }
GP_FN int atomicCAS(int *p, int was, int v) {
  __atomic_compare_exchange_n(p, &was, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return was;
}
GP_FN unsigned atomicCAS(unsigned *p, unsigned was, unsigned v) {
  __atomic_compare_exchange_n(p, &was, v, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return was;
}

template <typename T>
GP_FN T __ldg(const T *p) {
  return *p;
}

GP_FN void gp_prefetch(const void *) {}
GP_FN void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
GP_FN void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
GP_FN void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

// A load that others are waited for with gives way first: to the block's other threads, then to other OS threads.
template <typename T>
GP_FN T gp_sim_poll(const volatile T *p) {
  gp_sim_yield();
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
GP_FN int gp_load_acquire_system(const volatile int *p) { return gp_sim_poll(p); }
GP_FN void gp_store_release_system(volatile int *p, int v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
GP_FN int gp_load_acquire(const volatile int *p) { return gp_sim_poll(p); }
GP_FN unsigned gp_load_acquire(const volatile unsigned *p) { return gp_sim_poll(p); }
GP_FN void gp_store_release(volatile int *p, int v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

// Both clocks count nanoseconds here; reading one in a loop gives way, as a load does.
GP_FN long long clock64() { return gp_sim_clock(); }
GP_FN unsigned long long gp_globaltimer() { return (unsigned long long)gp_sim_clock(); }
GP_FN void gp_nanosleep(unsigned) { gp_sim_yield(); }
GP_FN unsigned gp_smid() { return (blockIdx.x + blockIdx.y * gridDim.x) & 7u; }
[[noreturn]] GP_FN void gp_trap() { gp_sim_trap(); }
#define __builtin_trap() gp_sim_trap()

GP_FN float gp_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
GP_FN double gp_fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
GP_FN float gp_sqrt(float x) { return __builtin_sqrtf(x); }
GP_FN double gp_sqrt(double x) { return __builtin_sqrt(x); }
GP_FN float gp_rcp(float x) { return 1.0f / x; }
GP_FN double gp_rcp(double x) { return 1.0 / x; }
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

template <typename To, typename From>
GP_FN To gp_sim_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "same size");
  To y;
  memcpy(&y, &x, sizeof y);
  return y;
}
GP_FN unsigned __float_as_uint(float x) { return gp_sim_bits<unsigned>(x); }
GP_FN float __uint_as_float(unsigned x) { return gp_sim_bits<float>(x); }
GP_FN int __float_as_int(float x) { return gp_sim_bits<int>(x); }
GP_FN float __int_as_float(int x) { return gp_sim_bits<float>(x); }
GP_FN long long __double_as_longlong(double x) { return gp_sim_bits<long long>(x); }
GP_FN double __longlong_as_double(long long x) { return gp_sim_bits<double>(x); }
