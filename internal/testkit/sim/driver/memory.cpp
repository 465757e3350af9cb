// Device and pinned memory. An allocation ends as close to a guard page as its 256-byte alignment lets it, with a
// pattern in the gap and before it; freed addresses are never handed out again, so a stale pointer always shows.
// Under AddressSanitizer memory comes from its own allocator, which watches every access instead.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fiber.h"
#include "state.h"

static const size_t alignment = 256;
static const unsigned char canary = 0xa5, poison = 0xff;

#ifndef GP_ASAN
static const size_t arena_bytes = 1ull << 40; // address space only
static char *arena, *arena_next;

static size_t page_size() {
  static const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return page;
}

// The canary before the allocation, at most a page, and the one after it, less than the alignment.
static size_t gap_before(const Alloc *a) { return (size_t)(a->p - a->pages); }
static size_t gap_after(const Alloc *a) { return a->mapped - gap_before(a) - a->bytes; }

static bool place(Alloc *a) {
  if (!arena) {
    void *p = mmap(nullptr, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return false;
    arena = arena_next = (char *)p;
  }
  size_t page = page_size(), room = (a->bytes + alignment - 1) / alignment * alignment;
  size_t mapped = (room + page - 1) / page * page;
  char *p = arena_next + page; // the page before stays unreadable
  if (p + mapped + page > arena + arena_bytes) return false;
  if (mprotect(p, mapped, PROT_READ | PROT_WRITE) != 0) return false;
  arena_next = p + mapped;
  a->pages = p;
  a->mapped = mapped;
  a->p = p + mapped - room;
  memset(a->pages, canary, gap_before(a));
  memset(a->p + a->bytes, canary, gap_after(a));
  return true;
}

static void unplace(Alloc *a) {
  // Mapping anew both drops the pages and forbids them; neighbours of one kind merge in the kernel.
  mmap(a->pages, a->mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

static bool in_arena(const void *p) { return arena && (char *)p >= arena && (char *)p < arena_next; }

std::string damage(const Alloc *a) {
  for (size_t i = 0; i < gap_after(a); i++)
    if ((unsigned char)a->p[a->bytes + i] != canary)
      return "byte " + std::to_string(a->bytes + i) + ", past the end of " + describe(a->p);
  for (size_t i = 1; i <= gap_before(a); i++)
    if ((unsigned char)a->p[-(ptrdiff_t)i] != canary) return "byte -" + std::to_string(i) + ", before the start of " + describe(a->p);
  return "";
}

#else

static bool place(Alloc *a) {
  void *p = nullptr;
  if (posix_memalign(&p, alignment, a->bytes) != 0) return false;
  a->p = (char *)p;
  return true;
}
static void unplace(Alloc *a) { free(a->p); }
static bool in_arena(const void *) { return false; }
std::string damage(const Alloc *) { return ""; }

#endif

size_t used_bytes(int device) {
  size_t n = 0;
  for (auto &a : sim.allocs)
    if (a.second->place != Place::Pinned && a.second->context->device == device) n += a.second->bytes;
  return n;
}

static size_t pinned_bytes() {
  size_t n = 0;
  for (auto &a : sim.allocs)
    if (a.second->place == Place::Pinned) n += a.second->bytes;
  return n;
}

Alloc *alloc_new(Context *c, size_t bytes, Place where, Pool *pool) {
  sim.counts.allocations++;
  if (sim.config.oom_at && ++sim.config.allocations == sim.config.oom_at) return nullptr;
  size_t used = where == Place::Pinned ? pinned_bytes() : used_bytes(c->device);
  uint64_t room = where == Place::Pinned ? sim.config.pinned : sim.config.memory;
  if (bytes > room || used > room - bytes) return nullptr;
  auto a = std::make_unique<Alloc>();
  a->id = sim.next_id++;
  a->bytes = bytes;
  a->place = where;
  a->context = c;
  a->pool = pool;
  if (!place(a.get())) return nullptr;
#ifdef GP_ASAN
  // Its allocator does reuse addresses.
  for (auto i = sim.freed.lower_bound((uintptr_t)a->p); i != sim.freed.end() && i->first < (uintptr_t)a->p + bytes;) i = sim.freed.erase(i);
#endif
  // Content is undefined: all ones are NaN as floats and -1 as integers, where that is quick to write.
  if (bytes <= sim.config.poison) memset(a->p, poison, bytes);
  if (pool) {
    pool->used += bytes;
    pool->used_high = std::max(pool->used_high, pool->used);
    pool->reserved = std::max(pool->reserved, pool->used);
    pool->reserved_high = std::max(pool->reserved_high, pool->reserved);
  }
  Alloc *out = a.get();
  sim.by_id[out->id] = out;
  sim.allocs[(uintptr_t)out->p] = std::move(a);
  return out;
}

void alloc_free(Alloc *a) {
  std::string d = damage(a);
  if (!d.empty()) sim.violation("somebody wrote " + d);
  if (a->pool) a->pool->used -= a->bytes;
  sim.freed[(uintptr_t)a->p] = {a->bytes, describe(a->p)};
  if (sim.freed.size() > 4096) sim.freed.erase(sim.freed.begin());
  sim.by_id.erase(a->id);
  unplace(a);
  sim.allocs.erase((uintptr_t)a->p);
}

Alloc *alloc_at(const void *p) {
  auto i = sim.allocs.upper_bound((uintptr_t)p);
  if (i == sim.allocs.begin()) return nullptr;
  Alloc *a = std::prev(i)->second.get();
  // An empty allocation does not exist; its neighbour's address is never its own.
  return (uintptr_t)p < (uintptr_t)a->p + a->bytes ? a : nullptr;
}

static const std::pair<size_t, std::string> *freed_at(const void *p) {
  auto i = sim.freed.upper_bound((uintptr_t)p);
  if (i == sim.freed.begin()) return nullptr;
  auto before = std::prev(i);
  return (uintptr_t)p < before->first + before->second.first ? &before->second : nullptr;
}

bool looks_like_memory(const void *p) { return in_arena(p) || freed_at(p) || alloc_at(p); }

std::string describe(const void *p) {
  char s[160];
  if (Alloc *a = alloc_at(p)) {
    const char *kind = a->place == Place::Pinned ? "pinned" : a->place == Place::Pool ? "pool" : "device";
    snprintf(s, sizeof s, "%s buffer %llu (%zu bytes)", kind, (unsigned long long)a->id, a->bytes);
    return s;
  }
  if (auto *f = freed_at(p)) return "freed " + f->second;
  snprintf(s, sizeof s, "%p, which is no memory of this device", p);
  return s;
}
