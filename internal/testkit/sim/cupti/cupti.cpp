// A libcupti for tests: the functions that the recorder uses, with the interface of one of 13 releases. It records what
// the simulated driver does, and ends the process where a rule is broken that a real one would punish in its own ways.
#include "cupti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const Abi *abi;
thread_local bool inside;
std::atomic<bool> recorded[64], by_number[2][256], initialised;
pthread_mutex_t state = PTHREAD_MUTEX_INITIALIZER;

static char asked[256];
bool fault(const char *name) {
  const char *at = strstr(asked, "fault=");
  return at && strstr(at, name);
}
[[noreturn]] void wrong(const char *format, const char *function) {
  char text[200];
  int n = snprintf(text, sizeof text, format, function);
  if (write(2, "simulated CUPTI: ", 17) == 17 && write(2, text, (size_t)n) == n && write(2, "\n", 1) == 1) abort();
  abort();
}

// The release is the one in the name of the library's folder, cupti-12.9 for example, or the one that a test names.
__attribute__((constructor)) static void begin() {
  const char *env = getenv("GPUPROF_SIM_CUPTI");
  Dl_info self;
  snprintf(asked, sizeof asked, "%s", env ? env : "");
  for (const Abi &a : abis) {
    char in_path[64], in_env[64];
    snprintf(in_path, sizeof in_path, "/cupti-%s/", a.name);
    snprintf(in_env, sizeof in_env, "abi=%s;", a.name);
    bool named = strstr(asked, "abi=") ? strstr(asked, in_env) != nullptr : dladdr((void *)begin, &self) && strstr(self.dli_fname, in_path);
    if (a.family == FAMILY && (!abi || named)) abi = &a;
  }
}

// The real one's C++ objects end with the handlers of exit, in the order opposite to that in which they were made, and
// its functions crash from then on.
static std::atomic<bool> gone;
namespace {
struct Ending {
  ~Ending() { gone = true; }
} ending;
} // namespace

void family(int which, const char *function) {
  if (gone) wrong("%s is called after the library's own end in exit", function);
  static std::atomic<int> used{0};
  if (inside) wrong("%s was called inside a callback for buffers", function);
  if (!abi->family || abi->family < 3) return;
  int none = 0;
  if (!used.compare_exchange_strong(none, which) && none != which) wrong("%s mixes the two families of functions", function);
}

static uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

typedef void (*Callback)(void *, uint32_t, uint32_t, const void *);
static std::atomic<Callback> callback;
static std::atomic<bool> resource[8];
static std::atomic<bool> subscribed;

void tell_resource(uint32_t id) {
  Callback f = callback;
  if (f && resource[id]) f(nullptr, 3, id, nullptr);
}

#ifndef WITHOUT_VERSION
API cuptiGetVersion(uint32_t *v) {
  *v = fault("old") ? 12 : abi->version;
  return 0;
}
#endif
API cuptiGetTimestamp(uint64_t *t) {
  family(1, __func__);
  *t = now();
  return 0;
}
API cuptiSetThreadIdType(int) { return 0; }
API cuptiGetCallbackName(uint32_t domain, uint32_t id, const char **name) {
  const uint32_t drivers = sizeof driver_calls / sizeof *driver_calls, runtimes = sizeof runtime_calls / sizeof *runtime_calls;
  *name = domain == 1 && id < drivers ? driver_calls[id] : domain == 2 && id < runtimes ? runtime_calls[id] : nullptr;
  return *name ? 0 : 1;
}

static int subscribe(void **s, void *f) {
  if (fault("driver")) return 15;
  if (fault("unsupported")) return 34;
  if (fault("busy") || subscribed.exchange(true)) return 39;
  callback = (Callback)f;
  *s = (void *)0x1234;
  start_telling();
  return 0;
}
API cuptiSubscribe(void **s, void *f, void *) {
  if (!fault("busy")) family(1, __func__);
  return subscribe(s, f);
}
API cuptiUnsubscribe(void *) {
  callback = nullptr;
  subscribed = false;
  return 0;
}
API cuptiEnableCallback(uint32_t on, void *, uint32_t domain, uint32_t id) {
  if (domain == 3 && id < 8) resource[id] = on != 0;
  return 0;
}

static int kind(const char *function, int k, bool on) {
  if (k < 0 || k >= 64 || !size_of((uint32_t)k)) return 1;
  if (fault("refuses") && k == 17) return 34;
  // What is enabled by its kind brings every call, whatever was enabled by number.
  if (on && (k == 4 || k == 5) && abi->family > 0) wrong("%s of all calls where calls can be chosen", function);
  recorded[k] = on;
  if (on && k == 8 && initialised) put_devices();
  return 0;
}
API cuptiActivityEnable(int k) {
  family(1, __func__);
  return kind(__func__, k, true);
}
API cuptiActivityDisable(int k) {
  family(1, __func__);
  return kind(__func__, k, false);
}
#ifndef WITHOUT_BUFFERS
API cuptiActivityRegisterCallbacks(Request r, Complete c) {
  family(1, __func__);
  buffers_by(r, c, nullptr, nullptr);
  return 0;
}
#endif
API cuptiActivityGetNextRecord(uint8_t *b, size_t n, uint8_t **r) {
  return next_record(b, n, r);
}
API cuptiActivityGetNumDroppedRecords(void *, uint32_t, size_t *n) {
  family(1, __func__);
  *n = take_dropped();
  return 0;
}
API cuptiActivityFlushAll(uint32_t) {
  if (inside) wrong("%s was called inside a callback for buffers", __func__);
  if (!initialised) wrong("%s was called before cuInit had finished", __func__);
  flush();
  return 0;
}

#if FAMILY >= 1
API cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t on) {
  family(1, __func__);
  by_number[1][id & 255] = on != 0;
  return 0;
}
API cuptiActivityEnableDriverApi(uint32_t id, uint8_t on) {
  family(1, __func__);
  by_number[0][id & 255] = on != 0;
  return 0;
}
#endif

#if FAMILY >= 2
API cuptiSubscribe_v2(void **s, void *f, void *, void *params) {
  struct {
    size_t size;
    const char *name;
    char *other;
    size_t other_size;
    uint8_t allow;
  } p;
  memcpy(&p, params, sizeof p);
  if (p.size != (abi->version >= 130200 ? 40u : 32u)) return 1;
  if (fault("busy") && p.other) snprintf(p.other, p.other_size, "CUPTI for Other \"Tool\"");
  if (fault("busy")) return 39;
  family(2, __func__);
  return subscribe(s, f);
}
#endif

#if FAMILY >= 3
API cuptiGetTimestamp_v2(void *, uint64_t *t) {
  family(2, __func__);
  *t = now();
  return 0;
}
API cuptiActivitySetAttribute_v2(void *, int, size_t *, void *) {
  family(2, __func__);
  return 0;
}
API cuptiActivityEnable_v2(void *, int k, void *) {
  family(2, __func__);
  return kind(__func__, k, true);
}
API cuptiActivityDisable_v2(void *, int k, void *) {
  family(2, __func__);
  return kind(__func__, k, false);
}
API cuptiActivityRegisterCallbacks_v2(void *, Request2 r, Complete2 c) {
  family(2, __func__);
  buffers_by(nullptr, nullptr, r, c);
  return 0;
}
API cuptiActivityGetNextRecord_v2(void *, uint8_t *b, size_t n, uint8_t **r) { return next_record(b, n, r); }
API cuptiActivityGetNumDroppedRecords_v2(void *, void *, uint32_t, size_t *n) {
  family(2, __func__);
  *n = take_dropped();
  return 0;
}
API cuptiActivityEnableRuntimeApi_v2(void *, uint32_t id, uint8_t on) {
  family(2, __func__);
  by_number[1][id & 255] = on != 0;
  return 0;
}
API cuptiActivityEnableDriverApi_v2(void *, uint32_t id, uint8_t on) {
  family(2, __func__);
  by_number[0][id & 255] = on != 0;
  return 0;
}
#endif
