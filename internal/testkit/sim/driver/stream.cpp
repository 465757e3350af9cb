// Streams run their work in order on a thread of their own, so that a caller goes on, two streams overlap and a
// kernel can wait for the host, as on a GPU.
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "state.h"

Sim &sim = *new Sim;
thread_local Context *current;

void Sim::violation(const std::string &s) {
  violation_count++;
  if (violations.size() < 64) violations.push_back(s);
}

void Sim::race(const std::string &s) {
  for (const std::string &r : races)
    if (r == s) return; // one line for each pair, however often a loop meets it
  race_count++;
  if (races.size() < 64) races.push_back(s);
}

int64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void work_loop(Stream *s) {
  for (;;) {
    Queued q;
    {
      std::unique_lock<std::mutex> hold(s->mu);
      s->cv.wait(hold, [s] { return s->quit || !s->queue.empty(); });
      if (s->queue.empty()) break;
      q = s->queue.front();
      s->queue.pop_front();
    }
    correlation = q.corr;
    run_work(q.work, *s, 0);
    q.work.reset();
    {
      std::lock_guard<std::mutex> hold(s->mu);
      s->done++;
    }
    s->cv.notify_all();
  }
  free_stacks();
}

StreamRef stream_new(Context *c, unsigned flags, int priority) {
  auto s = std::make_shared<Stream>();
  s->number = sim.next_stream++;
  s->context = c;
  s->flags = flags;
  s->priority = priority;
  // The program's signals are for its own threads; only faults of the kernels are handled here.
  sigset_t all, before;
  sigfillset(&all);
  for (int sig : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&all, sig);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  s->worker = std::thread(work_loop, s.get());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  sim.streams[s.get()] = s;
  return s;
}

int submit(Stream *s, WorkRef w) {
  order_work(s, *w);
  if (s->capture) {
    s->capture->nodes.push_back(w);
    if (s != s->capture->origin) s->capture->unjoined.insert(s);
    return OK;
  }
  {
    std::lock_guard<std::mutex> hold(s->mu);
    s->queue.push_back({std::move(w), correlation});
    s->queued++;
  }
  s->cv.notify_all();
  return OK;
}

void stream_wait(Stream *s, uint64_t n) {
  std::unique_lock<std::mutex> hold(s->mu);
  s->cv.wait(hold, [s, n] { return s->done >= n; });
}

void stream_quit(Stream *s) {
  {
    std::lock_guard<std::mutex> hold(s->mu);
    s->quit = true;
  }
  s->cv.notify_all();
}

void event_done(Event &e, uint64_t sequence) {
  {
    std::lock_guard<std::mutex> hold(e.mu);
    e.ns = now_ns();
    e.done = sequence ? std::max(e.done, sequence) : e.done + 1;
  }
  e.cv.notify_all();
}

void context_fail_locked(Context *c, int err, const std::string &text) {
  int none = 0;
  if (c->error.compare_exchange_strong(none, err)) c->error_text = text;
  for (auto &s : sim.streams)
    if (s.first->context == c) s.first->stop = true;
  for (auto &s : sim.finishing)
    if (s->context == c) s->stop = true;
}

void context_fail(Context *c, int err, const std::string &text) {
  std::lock_guard<std::mutex> hold(sim.mu);
  context_fail_locked(c, err, text);
}

// finish waits for one stream's work, but not for a kernel that spins for ever.
static void finish(const StreamRef &s, bool report) {
  stream_quit(s.get());
  bool over;
  {
    std::unique_lock<std::mutex> hold(s->mu);
    over = s->cv.wait_for(hold, std::chrono::seconds(2), [&] { return s->done >= s->queued; });
  }
  if (!over) {
    s->stop = true;
    std::lock_guard<std::mutex> hold(sim.mu);
    if (report) sim.violation("context released while work in stream " + std::to_string(s->number) + " was still running");
  }
  s->worker.join();
}

static void report_leaks(Context *c) {
  int device = 0, pinned = 0, pool = 0, streams = 0, events = 0, graphs = 0, modules = 0, pools = 0;
  size_t bytes = 0;
  for (auto &a : sim.allocs) {
    if (a.second->context != c) continue;
    bytes += a.second->bytes;
    (a.second->place == Place::Device ? device : a.second->place == Place::Pinned ? pinned : pool)++;
  }
  for (auto &s : sim.streams) streams += s.first->context == c && s.second != c->null_stream;
  for (auto &e : sim.events) events += e.first->context == c;
  for (auto &g : sim.graphs) graphs += g.first->context == c;
  for (auto &m : sim.modules) modules += m.first->context == c;
  for (auto &p : sim.pools) pools += p.first->context == c;
  if (device + pinned + pool + streams + events + graphs + modules + pools == 0) return;
  sim.violation("context released with " + std::to_string(device) + " device, " + std::to_string(pinned) + " pinned and " +
                std::to_string(pool) + " pool buffers (" + std::to_string(bytes) + " bytes), " + std::to_string(streams) + " streams, " +
                std::to_string(events) + " events, " + std::to_string(graphs) + " graphs, " + std::to_string(modules) + " modules and " +
                std::to_string(pools) + " pools alive");
}

template <typename M>
static void drop(M &m, Context *c) {
  for (auto i = m.begin(); i != m.end();)
    if (i->first->context == c) i = m.erase(i);
    else ++i;
}

void context_close(std::unique_lock<std::mutex> &hold, Context *c, bool report) {
  if (report) report_leaks(c);
  std::vector<StreamRef> streams, others;
  for (auto &s : sim.streams)
    if (s.first->context == c) streams.push_back(s.second);
  for (auto &s : sim.finishing) (s->context == c ? streams : others).push_back(s);
  sim.finishing = others;
  drop(sim.streams, c);
  // A capture that was never ended belongs to one of the streams.
  for (auto i = sim.captures.begin(); i != sim.captures.end();)
    if (i->first->origin->context == c) i = sim.captures.erase(i);
    else ++i;
  hold.unlock();
  for (auto &s : streams) finish(s, report);
  if (const gpuprof_sim_hooks *h = hooks) h->context_ends();
  hold.lock();
  c->null_stream.reset();
  std::vector<Alloc *> left;
  for (auto &a : sim.allocs)
    if (a.second->context == c) left.push_back(a.second.get());
  for (Alloc *a : left) alloc_free(a);
  for (auto i = sim.functions.begin(); i != sim.functions.end();)
    if (i->second->context == c) i = sim.functions.erase(i);
    else ++i;
  drop(sim.events, c);
  drop(sim.graphs, c);
  drop(sim.modules, c);
  drop(sim.pools, c);
  sim.contexts.erase(c->device);
  if (sim.contexts.empty()) {
    // Nothing refers to a stream's number any more.
    sim.next_stream = 1;
    sim.host = Clock{};
  }
}

void simulate_reset(std::unique_lock<std::mutex> &hold) {
  while (!sim.contexts.empty()) {
    Context *c = sim.contexts.begin()->second.get();
    context_fail_locked(c, 709, "reset");
    context_close(hold, c, false);
  }
  sim.config = Config{};
  sim.initialised = false;
  sim.next_id = 1;
  sim.freed.clear();
  sim.dead_handles.clear();
  sim.violations.clear();
  sim.races.clear();
  sim.faults.clear();
  sim.violation_count = sim.race_count = 0;
  Counts &n = sim.counts;
  n.calls = n.allocations = n.launches = n.copies = n.copied_bytes = n.memsets = n.graph_launches = 0;
  n.kernels_run = n.library_run = 0;
}

std::string simulate_report() {
  uint64_t count[3] = {}, bytes[3] = {};
  for (auto &a : sim.allocs) {
    count[(int)a.second->place]++;
    bytes[(int)a.second->place] += a.second->bytes;
  }
  uint64_t streams = 0, graphs = 0, execs = 0;
  for (auto &s : sim.streams) streams += s.second != s.first->context->null_stream;
  for (auto &g : sim.graphs) (g.first->executable ? execs : graphs)++;
  std::string out;
  auto line = [&out](const char *name, uint64_t v) { out += std::string(name) + " " + std::to_string(v) + "\n"; };
  line("contexts", sim.contexts.size());
  line("device_buffers", count[0]), line("device_bytes", bytes[0]);
  line("pinned_buffers", count[1]), line("pinned_bytes", bytes[1]);
  line("pool_buffers", count[2]), line("pool_bytes", bytes[2]);
  line("pools", sim.pools.size());
  line("streams", streams), line("events", sim.events.size()), line("modules", sim.modules.size());
  line("graphs", graphs), line("graph_execs", execs);
  const Counts &n = sim.counts;
  line("calls", n.calls), line("allocations", n.allocations), line("launches", n.launches), line("kernels_run", n.kernels_run), line("library_run", n.library_run);
  line("copies", n.copies), line("copied_bytes", n.copied_bytes), line("memsets", n.memsets), line("graph_launches", n.graph_launches);
  line("violation_count", sim.violation_count), line("race_count", sim.race_count);
  for (auto &v : sim.violations) out += "violation " + v + "\n";
  for (auto &r : sim.races) out += "race " + r + "\n";
  for (auto &f : sim.faults) out += "fault " + f + "\n";
  return out;
}
