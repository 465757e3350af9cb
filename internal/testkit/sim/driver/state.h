// What the simulated driver keeps: contexts, memory, streams, events, graphs, modules, and the order between them.
//
// One mutex (Sim::mu) guards all of it; every driver call holds it except while it waits. Stream workers run
// without it and take it only to end a stream-ordered free or to record an error.
#pragma once

#include <stdint.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "config.h"
#include "exec.h"
#include "hooks.h"

// Error numbers of cuda.h that are returned here.
enum {
  OK = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  NO_DEVICE = 100,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  NO_BINARY_FOR_GPU = 209,
  PEER_ACCESS_UNSUPPORTED = 217,
  INVALID_PTX = 218,
  UNSUPPORTED_PTX_VERSION = 222,
  INVALID_HANDLE = 400,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  PEER_ACCESS_ALREADY_ENABLED = 704,
  PEER_ACCESS_NOT_ENABLED = 705,
  LAUNCH_FAILED = 719,
  COOPERATIVE_TOO_LARGE = 720,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURED_EVENT = 907,
};

// A vector clock: for each stream, by its number, how much of its work is known to be over.
struct Clock {
  std::vector<uint64_t> at;
  uint64_t of(int stream) const { return (size_t)stream < at.size() ? at[(size_t)stream] : 0; }
  void set(int stream, uint64_t v);
  void join(const Clock &);
};

enum class Place { Device, Pinned, Pool };

struct Context;
struct Stream;
struct Pool;

// One use of a range of an allocation by work in a stream.
struct Use {
  int stream;
  uint64_t epoch;
  size_t lo, hi;
  bool write;
  const char *what; // a kernel's or call's name, never freed
};

struct Alloc {
  uint64_t id;
  char *p;
  size_t bytes;
  Place place;
  Context *context;
  Pool *pool = nullptr;
  char *pages = nullptr; // mapping; null under AddressSanitizer
  size_t mapped = 0;
  bool freed_async = false, damaged = false;
  std::vector<Use> uses;
};

// What an operation touches, found when it is asked for.
struct Touch {
  uint64_t id;
  size_t lo, hi;
  bool write, flag;
};

struct Pool {
  Context *context;
  bool is_default = false;
  uint64_t threshold = 0, used = 0, used_high = 0, reserved = 0, reserved_high = 0;
};

struct Event {
  unsigned flags = 0;
  Context *context = nullptr;
  std::mutex mu;
  std::condition_variable cv;
  uint64_t recorded = 0, done = 0; // sequence numbers of records
  int64_t ns = 0;                  // of the last one done
  Clock clock;                     // of the last one asked for
  struct Capture *capture = nullptr; // recorded inside this capture
  bool external = false;             // recorded by a graph
};
using EventRef = std::shared_ptr<Event>;

// Work is one operation ready to run, once or, in a graph, many times.
struct Work {
  const char *what = "";
  std::vector<Touch> touches;
  std::function<void(Stream &)> run;
  bool always = false; // runs in a dead context, too: what others wait for
  EventRef records;    // the event a graph's node records
  gpuprof_sim_operation shown{}; // what a profiler is told of it; of kind 0 nothing
};
using WorkRef = std::shared_ptr<Work>;

// Queued is work in a stream, with the call that put it there.
struct Queued {
  WorkRef work;
  uint32_t corr;
};

struct Capture {
  Stream *origin = nullptr;
  int mode = 0; // 0 global, 1 this thread, 2 relaxed
  std::thread::id thread;
  std::set<Stream *> members;
  std::set<Stream *> unjoined;
  std::vector<WorkRef> nodes;
  std::map<uint64_t, std::vector<Use>> uses; // the race check inside the graph
  bool invalid = false;
};

struct Stream {
  int number = 0;
  Context *context = nullptr;
  unsigned flags = 0;
  int priority = 0;
  Clock clock;
  Capture *capture = nullptr;
  Clock capture_clock;
  std::thread worker;
  std::mutex mu;
  std::condition_variable cv;
  std::deque<Queued> queue;
  uint64_t queued = 0, done = 0;
  bool quit = false;
  std::atomic<bool> stop{false};
};
using StreamRef = std::shared_ptr<Stream>;

struct Graph {
  Context *context;
  std::vector<WorkRef> nodes;
  bool executable = false;
  uint32_t number = 0; // by which a profiler knows it
};

struct Function {
  std::string name;
  const gp_sim_kernel *kernel;
  struct Module *module;
  size_t static_shared = 0;
  int max_threads = 1024, dynamic_limit = 0;
};

struct Module {
  Context *context;
  int ptx_version = 0, target = 0;
  std::map<std::string, std::unique_ptr<Function>> functions;
  std::set<std::string> without_twin;
};

struct Context {
  int device = 0, references = 0;
  std::atomic<int> error{0}; // sticky
  std::string error_text;
  std::unique_ptr<Pool> default_pool;
  StreamRef null_stream;
  std::set<int> peers; // devices whose memory it has access to
};

struct Counts {
  uint64_t calls = 0, allocations = 0, launches = 0, copies = 0, copied_bytes = 0, memsets = 0, graph_launches = 0;
  std::atomic<uint64_t> kernels_run{0}, library_run{0};
};

struct Sim {
  std::mutex mu;
  Config config;
  bool initialised = false, env_read = false;
  std::map<int, std::unique_ptr<Context>> contexts; // by device, while retained
  std::map<uintptr_t, std::unique_ptr<Alloc>> allocs;
  std::map<uintptr_t, std::pair<size_t, std::string>> freed; // where memory was, for messages
  std::map<uint64_t, Alloc *> by_id;
  uint64_t next_id = 1;
  std::map<Stream *, StreamRef> streams;
  std::vector<StreamRef> finishing; // destroyed, still emptying their queues
  std::map<Event *, EventRef> events;
  std::map<Graph *, std::unique_ptr<Graph>> graphs;
  std::map<Module *, std::unique_ptr<Module>> modules;
  std::map<Function *, Module *> functions;
  std::map<Pool *, std::unique_ptr<Pool>> pools;
  std::map<Capture *, std::unique_ptr<Capture>> captures;
  std::set<void *> dead_handles; // destroyed and not reused since, for messages
  int next_stream = 1;
  uint32_t next_graph = 1;
  Clock host;
  Counts counts;
  std::vector<std::string> violations, races, faults; // faults: what ended a kernel
  uint64_t violation_count = 0, race_count = 0;

  void violation(const std::string &);
  void race(const std::string &);
};

// sim is never destroyed: workers may outlive static destructors.
extern Sim &sim;

extern thread_local Context *current;

// -- hooks.cpp: what a profiler is told ---------------------------------------

extern std::atomic<const gpuprof_sim_hooks *> hooks; // null: there is none
// The call that this thread is in, or that put the work there which it runs; 0 none.
extern thread_local uint32_t correlation;
uint32_t next_correlation();
int64_t real_ns();
// run_work runs work in the stream and tells of it; graph 0: it is in none.
void run_work(const WorkRef &, Stream &, uint32_t graph);
// inject_profiler loads what CUDA_INJECTION64_PATH names, as cuInit does; once a process.
void inject_profiler();
void tell_init_finished();

// -- memory.cpp (hold Sim::mu) ---------------------------------------------

// alloc_new places bytes; null when the simulated device (or, pinned, the machine) has no room.
Alloc *alloc_new(Context *, size_t bytes, Place, Pool *);
void alloc_free(Alloc *);
// alloc_at is the allocation containing p, or null. Being one past the end is outside.
Alloc *alloc_at(const void *p);
// looks_like_memory: p lies where the simulator's memory is or was.
bool looks_like_memory(const void *p);
// describe says what is or was at p.
std::string describe(const void *p);
// damage is "" or where somebody wrote outside the allocation.
std::string damage(const Alloc *);
size_t used_bytes(int device);

// -- order.cpp (hold Sim::mu) ----------------------------------------------

// order_work moves the stream's clock on by one and checks the touches of that step against all others.
void order_work(Stream *, const Work &);
// order_free notes a violation where work that may still use the allocation is not known to be over.
void order_free(const Alloc *, const Clock &known, const char *what);
// touch checks the range [p, p+n) and adds it; the error says what is wrong with it.
std::string touch(Work &, const void *p, size_t n, bool write, const char *what);

// -- stream.cpp ------------------------------------------------------------

StreamRef stream_new(Context *, unsigned flags, int priority);
// submit queues work in the stream, or makes it a node while capturing. Hold Sim::mu. Returns an error number.
int submit(Stream *, WorkRef);
// stream_wait returns when the stream has done its first n pieces of work; do not hold Sim::mu.
void stream_wait(Stream *, uint64_t n);
void stream_quit(Stream *); // no more work will come
int64_t now_ns();
void event_done(Event &, uint64_t sequence);
// context_fail makes err the context's sticky error and releases what spins. Takes Sim::mu.
void context_fail(Context *, int err, const std::string &text);
void context_fail_locked(Context *, int err, const std::string &text);
// context_close waits for its streams, reports what is left and releases it. Takes the lock it is given.
void context_close(std::unique_lock<std::mutex> &, Context *, bool report);
// simulate_reset closes every context and forgets everything, the configuration too.
void simulate_reset(std::unique_lock<std::mutex> &);
std::string simulate_report();
