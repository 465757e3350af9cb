// The order between pieces of work, kept as vector clocks when they are asked for: what the program guarantees, not
// what happened to happen. Two uses of one range, one of them a write, with no order between them are a race.
#include <algorithm>

#include "state.h"

void Clock::set(int stream, uint64_t v) {
  if ((size_t)stream >= at.size()) at.resize((size_t)stream + 1);
  at[(size_t)stream] = v;
}

void Clock::join(const Clock &o) {
  if (o.at.size() > at.size()) at.resize(o.at.size());
  for (size_t i = 0; i < o.at.size(); i++) at[i] = std::max(at[i], o.at[i]);
}

std::string touch(Work &w, const void *p, size_t n, bool write, const char *what) {
  if (n == 0) return "";
  Alloc *a = alloc_at(p);
  if (!a) return std::string(what) + " is " + describe(p);
  if (a->freed_async) return std::string(what) + " is in " + describe(p) + ", after it was freed in stream order";
  size_t lo = (size_t)((char *)p - a->p);
  if (n > a->bytes - lo)
    return std::string(what) + " is bytes " + std::to_string(lo) + " to " + std::to_string(lo + n) + " of " + describe(p);
  w.touches.push_back({a->id, lo, lo + n, write, false});
  return "";
}

// check_uses compares one touch with the uses so far and adds it to them.
static void check_uses(std::vector<Use> &uses, const Touch &t, const Clock &now, int stream, uint64_t epoch, const char *what) {
  const size_t kept = 64; // ranges in rotation; the oldest go first
  Use *same = nullptr;
  for (Use &u : uses) {
    if (u.stream == stream && u.lo == t.lo && u.hi == t.hi && u.write == t.write) same = &u;
    bool overlap = u.lo < t.hi && t.lo < u.hi;
    if (!overlap || (!u.write && !t.write) || u.stream == stream || now.of(u.stream) >= u.epoch) continue;
    auto a = sim.by_id.find(t.id);
    sim.race(std::string(what) + " in stream " + std::to_string(stream) + (t.write ? " writes " : " reads ") +
             (a == sim.by_id.end() ? "a buffer" : describe(a->second->p)) + " while " + u.what + " in stream " +
             std::to_string(u.stream) + (u.write ? " writes" : " reads") + " it: no event orders them");
  }
  if (same) {
    same->epoch = epoch;
    same->what = what;
    return;
  }
  if (uses.size() >= kept) uses.erase(uses.begin());
  uses.push_back({stream, epoch, t.lo, t.hi, t.write, what});
}

void order_work(Stream *s, const Work &w) {
  if (s->capture) {
    uint64_t epoch = s->capture_clock.of(s->number) + 1;
    s->capture_clock.set(s->number, epoch);
    for (const Touch &t : w.touches)
      if (!t.flag) check_uses(s->capture->uses[t.id], t, s->capture_clock, s->number, epoch, w.what);
    return;
  }
  s->clock.join(sim.host);
  uint64_t epoch = s->queued + 1;
  s->clock.set(s->number, epoch);
  for (const Touch &t : w.touches) {
    auto a = sim.by_id.find(t.id);
    if (a != sim.by_id.end() && !t.flag) check_uses(a->second->uses, t, s->clock, s->number, epoch, w.what);
  }
}

void order_free(const Alloc *a, const Clock &known, const char *what) {
  for (const Use &u : a->uses)
    if (known.of(u.stream) < u.epoch) {
      sim.violation(std::string(what) + " of " + describe(a->p) + " while " + u.what + " in stream " + std::to_string(u.stream) +
                    " may still use it; wait for it first");
      return;
    }
}
