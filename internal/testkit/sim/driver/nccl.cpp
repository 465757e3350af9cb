// A simulated NCCL: communicators of one process, and sums of float32 over them. Every rank's part runs in the stream
// it was given; they meet there, and the last one to come adds up in the order of the ranks.
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "library.h"

extern "C" {
int cuCtxGetCurrent(void **);
int cuCtxSetCurrent(void *);
int cuDevicePrimaryCtxRetain(void **, int);
int cuDevicePrimaryCtxRelease_v2(int);
}

namespace {

enum { SUCCESS = 0, UNHANDLED_CUDA = 1, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

struct Clique {
  std::vector<int> devices;
};
struct Comm {
  std::shared_ptr<Clique> clique;
  int rank;
  void *context;
};
struct Asked {
  Comm *comm;
  const float *send;
  float *recv;
  size_t count;
  void *stream;
};
// Where the parts of one sum meet.
struct Meeting {
  std::mutex mu;
  std::condition_variable cv;
  std::vector<Asked> parts;
  size_t here = 0;
  bool over = false;
};

std::mutex mu;
std::set<Comm *> &comms = *new std::set<Comm *>;
thread_local int depth;
thread_local std::vector<Asked> asked;

int status(int driver) { return driver == 0 ? SUCCESS : UNHANDLED_CUDA; }

void meet(Meeting &m) {
  std::unique_lock<std::mutex> hold(m.mu);
  if (++m.here < m.parts.size() && !m.over) {
    m.cv.wait(hold, [&m] { return m.over; });
    return;
  }
  if (m.over) return;
  std::vector<float> sum(m.parts[0].count, 0);
  for (const Asked &a : m.parts)
    for (size_t i = 0; i < a.count; i++) sum[i] += a.send[i];
  for (const Asked &a : m.parts) memcpy(a.recv, sum.data(), 4 * a.count);
  m.over = true;
  m.cv.notify_all();
}

// start queues the parts of one sum, in the order of the ranks.
int start(std::vector<Asked> parts) {
  auto m = std::make_shared<Meeting>();
  for (size_t rank = 0; rank < parts.size(); rank++)
    for (const Asked &a : parts)
      if ((size_t)a.comm->rank == rank) m->parts.push_back(a);
  if (m->parts.size() != parts.size() || parts.size() != parts[0].comm->clique->devices.size()) return INVALID_USAGE;
  for (const Asked &a : parts)
    if (a.comm->clique != parts[0].comm->clique || a.count != parts[0].count) return INVALID_USAGE;
  void *before = nullptr;
  cuCtxGetCurrent(&before);
  int code = SUCCESS;
  for (const Asked &a : m->parts) {
    gpuprof_sim_range r[] = {{a.send, 4 * a.count, 0}, {a.recv, 4 * a.count, 1}};
    code = status(cuCtxSetCurrent(a.comm->context));
    if (code == SUCCESS) code = status(submit(a.stream, "ncclAllReduce", r, 2, [m] { meet(*m); }));
    if (code == SUCCESS) continue;
    std::lock_guard<std::mutex> hold(m->mu); // those that wait already must not wait for ever
    m->over = true;
    m->cv.notify_all();
    break;
  }
  cuCtxSetCurrent(before);
  return code;
}

} // namespace

EXPORT const int gpuprof_simulated;
const int gpuprof_simulated = 1;

EXPORT int ncclGetVersion(int *v) {
  *v = 22703;
  return SUCCESS;
}

EXPORT const char *ncclGetErrorString(int s) {
  const char *const names[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error", "invalid argument", "invalid usage"};
  return s >= 0 && s < 6 ? names[s] : "unknown result code";
}

EXPORT int ncclCommInitAll(void **out, int n, const int *devices) {
  if (int e = gpuprof_sim_enter("ncclCommInitAll")) return e < 0 ? -e : UNHANDLED_CUDA;
  if (!out || n < 1) return INVALID_ARGUMENT;
  auto clique = std::make_shared<Clique>();
  for (int i = 0; i < n; i++) clique->devices.push_back(devices ? devices[i] : i);
  if (std::set<int>(clique->devices.begin(), clique->devices.end()).size() != (size_t)n) return INVALID_USAGE;
  for (int i = 0; i < n; i++) {
    void *context = nullptr;
    if (cuDevicePrimaryCtxRetain(&context, clique->devices[(size_t)i])) return UNHANDLED_CUDA;
    auto *c = new Comm{clique, i, context};
    std::lock_guard<std::mutex> hold(mu);
    comms.insert(c);
    out[i] = c;
  }
  return SUCCESS;
}

EXPORT int ncclCommDestroy(void *p) {
  std::unique_lock<std::mutex> hold(mu);
  auto *c = (Comm *)p;
  if (!comms.erase(c)) return INVALID_ARGUMENT;
  hold.unlock();
  int code = status(cuDevicePrimaryCtxRelease_v2(c->clique->devices[(size_t)c->rank]));
  delete c;
  return code;
}

EXPORT int ncclGroupStart() {
  depth++;
  return SUCCESS;
}

EXPORT int ncclGroupEnd() {
  if (depth == 0) return INVALID_USAGE;
  if (--depth > 0) return SUCCESS;
  std::vector<Asked> all;
  all.swap(asked);
  return all.empty() ? SUCCESS : start(std::move(all));
}

EXPORT int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream) {
  if (int e = gpuprof_sim_enter("ncclAllReduce")) return e < 0 ? -e : UNHANDLED_CUDA;
  auto *c = (Comm *)comm;
  {
    std::lock_guard<std::mutex> hold(mu);
    if (!comms.count(c)) return INVALID_ARGUMENT;
  }
  if (type != 7 || op != 0 || !send || !recv) return INVALID_ARGUMENT; // ncclFloat32, ncclSum
  asked.push_back({c, (const float *)send, (float *)recv, count, stream});
  if (depth > 0) return SUCCESS;
  std::vector<Asked> one;
  one.swap(asked);
  return start(std::move(one));
}
