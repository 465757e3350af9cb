// Memory, pools, copies and fills.
#include <time.h>

#include "driver.h"

static int allocate(size_t bytes, Place place, Pool *pool, void **out) {
  if (bytes == 0 || !out) return INVALID_VALUE;
  if (place != Place::Pool)
    if (int e = capture_forbids()) return e;
  Alloc *a = alloc_new(current, bytes, place, pool);
  if (!a) return OUT_OF_MEMORY;
  *out = a->p;
  return OK;
}

EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t bytes) {
  ENTER(cuMemAlloc_v2, Context);
  return allocate(bytes, Place::Device, nullptr, (void **)p);
}

EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned) {
  ENTER(cuMemHostAlloc, Context);
  return allocate(bytes, Place::Pinned, nullptr, p);
}

EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *p, unsigned) {
  ENTER(cuMemHostGetDevicePointer_v2, Context);
  Alloc *a = alloc_at(p);
  if (!a || a->place != Place::Pinned) return INVALID_VALUE;
  *out = (CUdeviceptr)p;
  return OK;
}

// How far each stream has to get before something.
using Waits = std::vector<std::pair<StreamRef, uint64_t>>;

// in_use lists how far each stream has to get before nothing uses the memory; a destroyed stream goes on until its
// queue is empty.
static Waits in_use(const Alloc *a) {
  Waits out;
  for (const Use &u : a->uses) {
    for (auto &s : sim.streams)
      if (s.first->number == u.stream) out.push_back({s.second, u.epoch});
    for (auto &s : sim.finishing)
      if (s->number == u.stream) out.push_back({s, u.epoch});
  }
  return out;
}

// settle waits until the streams have got so far, and stops a kernel that keeps one longer than tests may take: then it
// is false. Without Sim::mu.
static bool settle(const Waits &wait) {
  bool over = true;
  for (auto &w : wait) {
    std::unique_lock<std::mutex> queue(w.first->mu);
    auto there = [&] { return w.first->done >= w.second; };
    if (w.first->cv.wait_for(queue, std::chrono::seconds(2), there)) continue;
    w.first->stop = true;
    over = false;
    w.first->cv.wait(queue, there);
  }
  return over;
}

int release(std::unique_lock<std::mutex> &hold, Alloc *a, const char *what) {
  Context *c = a->context;
  if (c->error == OK) order_free(a, sim.host, what);
  Waits wait = in_use(a); // as the driver does
  const void *p = a->p;
  uint64_t id = a->id;
  hold.unlock();
  bool over = settle(wait);
  hold.lock();
  if (!over) sim.violation(std::string(what) + " of " + describe(p) + " waited in vain for the work that uses it");
  auto still = sim.by_id.find(id);
  if (still != sim.by_id.end()) alloc_free(still->second);
  return c->error;
}

static int free_at(Call &call, void *p, bool pinned, const char *function) {
  if (!p) return pinned ? INVALID_VALUE : OK;
  Alloc *a = alloc_at(p);
  if (!a || a->p != p || a->freed_async || (a->place == Place::Pinned) != pinned) {
    sim.violation(std::string(function) + " of " + (a && a->p != p ? "the middle of " : "") + describe(p));
    return INVALID_VALUE;
  }
  if (int e = capture_forbids()) return e;
  return release(call.hold, a, function);
}

EXPORT CUresult cuMemFree_v2(CUdeviceptr p) {
  ENTER(cuMemFree_v2, Cleanup);
  return free_at(call, (void *)p, false, "cuMemFree");
}

EXPORT CUresult cuMemFreeHost(void *p) {
  ENTER(cuMemFreeHost, Cleanup);
  return free_at(call, p, true, "cuMemFreeHost");
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER(cuMemGetInfo_v2, Context);
  *total = sim.config.memory;
  uint64_t used = used_bytes(current->device), cached = 0;
  auto add = [&cached](const Pool *p) { cached += p->reserved - p->used; };
  add(current->default_pool.get());
  for (auto &p : sim.pools)
    if (p.first->context == current) add(p.first);
  *free = used + cached < *total ? *total - used - cached : 0;
  return OK;
}

// -- pools -----------------------------------------------------------------

struct PoolProps { // CUmemPoolProps, its first fields
  int type, handles, location, id;
};

EXPORT CUresult cuMemPoolCreate(CUmemoryPool *out, const PoolProps *props) {
  ENTER(cuMemPoolCreate, Context);
  if (!out || !props || props->type != 1 || props->location != 1 || props->id != current->device) return INVALID_VALUE;
  auto p = std::make_unique<Pool>();
  p->context = current;
  *out = p.get();
  sim.dead_handles.erase(p.get());
  sim.pools[p.get()] = std::move(p);
  return OK;
}

static Pool *pool_of(CUmemoryPool h, const char *function) {
  for (auto &c : sim.contexts)
    if (c.second->default_pool.get() == h) return (Pool *)h;
  if (sim.pools.count((Pool *)h)) return (Pool *)h;
  no_handle(h, function, "memory pool");
  return nullptr;
}

EXPORT CUresult cuMemPoolDestroy(CUmemoryPool h) {
  ENTER(cuMemPoolDestroy, Cleanup);
  Pool *p = pool_of(h, "cuMemPoolDestroy");
  if (!p) return INVALID_HANDLE;
  if (p->is_default) return INVALID_VALUE;
  int open = 0;
  for (auto &a : sim.allocs) {
    if (a.second->pool != p) continue;
    a.second->pool = nullptr;
    open += !a.second->freed_async;
  }
  if (open) sim.violation("cuMemPoolDestroy with " + std::to_string(open) + " of its buffers alive");
  sim.pools.erase(p);
  sim.dead_handles.insert(h);
  return call.error();
}

static void trim(Pool *p, uint64_t keep) { p->reserved = std::max(p->used, std::min(p->reserved, keep)); }

EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool h, size_t keep) {
  ENTER(cuMemPoolTrimTo, Context);
  Pool *p = pool_of(h, "cuMemPoolTrimTo");
  if (!p) return INVALID_HANDLE;
  trim(p, keep);
  return OK;
}

EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool h, int attribute, void *value) {
  ENTER(cuMemPoolSetAttribute, Context);
  Pool *p = pool_of(h, "cuMemPoolSetAttribute");
  if (!p) return INVALID_HANDLE;
  uint64_t v = 0;
  switch (attribute) {
  case 1: // reuse policies: an int each, of no consequence here
  case 2:
  case 3:
    return OK;
  case 4:
    memcpy(&p->threshold, value, sizeof v);
    return OK;
  case 6: // the high-water marks may only be set to zero, which means to now
  case 8:
    memcpy(&v, value, sizeof v);
    if (v != 0) return INVALID_VALUE;
    (attribute == 6 ? p->reserved_high : p->used_high) = attribute == 6 ? p->reserved : p->used;
    return OK;
  default:
    return INVALID_VALUE;
  }
}

EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool h, int attribute, void *value) {
  ENTER(cuMemPoolGetAttribute, Context);
  Pool *p = pool_of(h, "cuMemPoolGetAttribute");
  if (!p) return INVALID_HANDLE;
  const uint64_t values[] = {p->threshold, p->reserved, p->reserved_high, p->used, p->used_high};
  if (attribute >= 4 && attribute <= 8) {
    memcpy(value, &values[attribute - 4], sizeof(uint64_t));
    return OK;
  }
  if (attribute < 1 || attribute > 8) return INVALID_VALUE;
  int on = 1;
  memcpy(value, &on, sizeof on);
  return OK;
}

EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, int device) {
  ENTER(cuDeviceGetDefaultMemPool, Init);
  auto c = sim.contexts.find(device);
  if (c == sim.contexts.end()) return device >= 0 && device < sim.config.devices ? INVALID_CONTEXT : INVALID_DEVICE;
  *out = c->second->default_pool.get();
  return OK;
}

static int allocate_async(CUdeviceptr *p, size_t bytes, Pool *pool, CUstream h, const char *function) {
  Stream *s = stream_of(h, function);
  if (!s) return INVALID_HANDLE;
  if (s->capture) return capture_spoil(s->capture, CAPTURE_UNSUPPORTED);
  if (int e = allocate(bytes, Place::Pool, pool, (void **)p)) return e;
  // The memory is the stream's from here on: others must be ordered after this point.
  auto w = std::make_shared<Work>();
  w->what = "the allocation";
  touch(*w, (void *)*p, bytes, true, "");
  w->run = [](Stream &) {};
  return submit(s, w);
}

EXPORT CUresult cuMemAllocAsync(CUdeviceptr *p, size_t bytes, CUstream s) {
  ENTER(cuMemAllocAsync, Context);
  return allocate_async(p, bytes, current->default_pool.get(), s, "cuMemAllocAsync");
}

EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr *p, size_t bytes, CUmemoryPool h, CUstream s) {
  ENTER(cuMemAllocFromPoolAsync, Context);
  Pool *pool = pool_of(h, "cuMemAllocFromPoolAsync");
  return pool ? allocate_async(p, bytes, pool, s, "cuMemAllocFromPoolAsync") : INVALID_HANDLE;
}

EXPORT CUresult cuMemFreeAsync(CUdeviceptr p, CUstream h) {
  ENTER(cuMemFreeAsync, Cleanup);
  Stream *s = stream_of(h, "cuMemFreeAsync");
  if (!s) return INVALID_HANDLE;
  Alloc *a = alloc_at((void *)p);
  if (!a || a->p != (char *)p || a->freed_async || a->place == Place::Pinned) {
    sim.violation("cuMemFreeAsync of " + describe((void *)p));
    return INVALID_VALUE;
  }
  if (s->capture) return capture_spoil(s->capture, CAPTURE_UNSUPPORTED);
  Clock known = s->clock;
  known.join(sim.host);
  known.set(s->number, ~0ull); // the stream's own work comes first
  if (s->context->error == OK) order_free(a, known, "cuMemFreeAsync");
  a->freed_async = true;
  // A program that frees too early has been told so; that its kernels then meet memory that is gone would only make it
  // a matter of chance what else it is told.
  Waits wait;
  for (auto &u : in_use(a))
    if (u.first.get() != s) wait.push_back(u);
  auto w = std::make_shared<Work>();
  w->what = "cuMemFreeAsync";
  w->always = true;
  w->run = [id = a->id, wait](Stream &) {
    settle(wait);
    std::lock_guard<std::mutex> hold(sim.mu);
    auto a = sim.by_id.find(id);
    if (a == sim.by_id.end()) return;
    Pool *pool = a->second->pool;
    alloc_free(a->second);
    if (pool) trim(pool, pool->threshold);
  };
  submit(s, w);
  return call.error();
}

// -- copies and fills ------------------------------------------------------

static void slow() {
  uint64_t us;
  {
    std::lock_guard<std::mutex> hold(sim.mu);
    us = sim.config.slow_copy_us;
  }
  if (us == 0) return;
  timespec t{(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  nanosleep(&t, nullptr);
}

// side checks one end of a copy. host: memory of the program is allowed, and reported in *pageable.
static int side(Work &w, void *p, size_t n, bool write, bool host, bool *pageable, const char *function) {
  if (host && !looks_like_memory(p)) {
    *pageable = true;
    return p ? OK : INVALID_VALUE;
  }
  std::string wrong = touch(w, p, n, write, write ? "the destination" : "the source");
  if (wrong.empty()) return OK;
  sim.violation(std::string(function) + ": " + wrong);
  return INVALID_VALUE;
}

static int copy(Call &call, const char *function, void *dst, bool dst_host, void *src, bool src_host, size_t n, CUstream h, bool wait) {
  Stream *s = stream_of(h, function);
  if (!s) return INVALID_HANDLE;
  if (n == 0) return OK;
  auto w = std::make_shared<Work>();
  w->what = function;
  bool from_program = false, to_program = false;
  if (int e = side(*w, dst, n, true, dst_host, &to_program, function)) return e;
  if (int e = side(*w, src, n, false, src_host, &from_program, function)) return e;
  if (s->capture && (from_program || to_program || wait)) return capture_spoil(s->capture, CAPTURE_UNSUPPORTED);
  Place at[2] = {Place::Device, Place::Device}; // of both ends, where they are not the program's own memory
  if (!from_program) at[0] = alloc_at(src)->place;
  if (!to_program) at[1] = alloc_at(dst)->place;
  bool host[2] = {from_program || at[0] == Place::Pinned, to_program || at[1] == Place::Pinned};
  w->shown.kind = 1, w->shown.bytes = n;
  w->shown.copy = host[0] ? (host[1] ? 9 : 1) : host[1] ? 2 : 8;
  w->shown.from = from_program ? 1 : host[0] ? 2 : 3, w->shown.to = to_program ? 1 : host[1] ? 2 : 3;
  sim.counts.copies++;
  sim.counts.copied_bytes += n;
  // Pageable memory may be changed, moved or gone once the call has returned: what is read is staged now, and a
  // call that writes there returns when it has.
  std::shared_ptr<std::vector<char>> staged;
  if (from_program) staged = std::make_shared<std::vector<char>>((char *)src, (char *)src + n);
  w->run = [dst, src, n, staged](Stream &) {
    slow();
    memmove(dst, staged ? staged->data() : src, n);
  };
  submit(s, w);
  if (!to_program && !wait) return OK;
  StreamRef keep = s == current->null_stream.get() ? current->null_stream : sim.streams[s];
  Context *c = current;
  uint64_t target = s->queued;
  Clock known = s->clock;
  call.hold.unlock();
  stream_wait(keep.get(), target);
  call.hold.lock();
  sim.host.join(known);
  return c->error;
}

EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t n, CUstream s) {
  ENTER(cuMemcpyHtoDAsync_v2, Context);
  return copy(call, "cuMemcpyHtoDAsync", (void *)dst, false, (void *)src, true, n, s, false);
}

EXPORT CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t n, CUstream s) {
  ENTER(cuMemcpyDtoHAsync_v2, Context);
  return copy(call, "cuMemcpyDtoHAsync", dst, true, (void *)src, false, n, s, false);
}

EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
  ENTER(cuMemcpyDtoDAsync_v2, Context);
  return copy(call, "cuMemcpyDtoDAsync", (void *)dst, false, (void *)src, false, n, s, false);
}

EXPORT CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
  ENTER(cuMemcpyAsync, Context);
  return copy(call, "cuMemcpyAsync", (void *)dst, true, (void *)src, true, n, s, false);
}

EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t n) {
  ENTER(cuMemcpyHtoD_v2, Context);
  return copy(call, "cuMemcpyHtoD", (void *)dst, false, (void *)src, true, n, nullptr, true);
}

EXPORT CUresult cuMemcpyDtoH_v2(void *dst, CUdeviceptr src, size_t n) {
  ENTER(cuMemcpyDtoH_v2, Context);
  return copy(call, "cuMemcpyDtoH", dst, true, (void *)src, false, n, nullptr, true);
}

static int fill(CUdeviceptr p, unsigned v, size_t width, size_t n, CUstream h, const char *function) {
  Stream *s = stream_of(h, function);
  if (!s) return INVALID_HANDLE;
  if (p % width != 0) return INVALID_VALUE;
  if (n == 0) return OK;
  auto w = std::make_shared<Work>();
  w->what = function;
  bool pageable = false;
  if (int e = side(*w, (void *)p, n * width, true, false, &pageable, function)) return e;
  w->shown.kind = 2, w->shown.bytes = n * width, w->shown.value = v, w->shown.memory = 3;
  sim.counts.memsets++;
  w->run = [p, v, width, n](Stream &) {
    if (width == 1) {
      memset((void *)p, (int)v, n);
      return;
    }
    unsigned *q = (unsigned *)p;
    for (size_t i = 0; i < n; i++) q[i] = v;
  };
  return submit(s, w);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s) {
  ENTER(cuMemsetD8Async, Context);
  return fill(p, v, 1, n, s, "cuMemsetD8Async");
}

EXPORT CUresult cuMemsetD32Async(CUdeviceptr p, unsigned v, size_t n, CUstream s) {
  ENTER(cuMemsetD32Async, Context);
  return fill(p, v, 4, n, s, "cuMemsetD32Async");
}
