#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool number(const std::string &s, uint64_t *out) {
  char *end = nullptr;
  unsigned long long v = strtoull(s.c_str(), &end, 0);
  if (s.empty() || s[0] == '-' || end == s.c_str()) return false;
  switch (*end) {
  case 'G':
    v <<= 10; // fall through
  case 'M':
    v <<= 10; // fall through
  case 'K':
    v <<= 10;
    end++;
  }
  *out = v;
  return *end == 0;
}

// nth_and_code reads "n" or "n:code".
static bool nth_and_code(const std::string &s, uint64_t *nth, int *code) {
  size_t colon = s.find(':');
  uint64_t c = (uint64_t)*code;
  bool ok = number(s.substr(0, colon), nth) && (colon == std::string::npos || number(s.substr(colon + 1), &c));
  *code = (int)c;
  return ok;
}

// fault reads "function@n:code" or "function@n:code:sticky".
static bool fault(std::string s, std::vector<Fault> *out) {
  Fault f;
  const std::string sticky = ":sticky";
  if (s.size() > sticky.size() && s.compare(s.size() - sticky.size(), sticky.size(), sticky) == 0) {
    f.sticky = true;
    s.resize(s.size() - sticky.size());
  }
  size_t at = s.find('@');
  if (at == std::string::npos || !nth_and_code(s.substr(at + 1), &f.nth, &f.code) || f.nth == 0 || f.code == 0) return false;
  f.function = s.substr(0, at);
  out->push_back(f);
  return true;
}

static bool read_order(const std::string &v, Order *o) {
  uint64_t seed = 1;
  size_t colon = v.find(':');
  std::string kind = v.substr(0, colon);
  if (colon != std::string::npos && !number(v.substr(colon + 1), &seed)) return false;
  o->seed = seed;
  if (kind == "forward") o->kind = Order::Forward;
  else if (kind == "reverse") o->kind = Order::Reverse;
  else if (kind == "shuffle") o->kind = Order::Shuffle;
  else return false;
  return true;
}

bool Config::set(const std::string &key, const std::string &v) {
  const std::map<std::string, uint64_t *> wide = {
      {"memory", &memory}, {"pinned", &pinned}, {"poison", &poison}, {"slow_copy_us", &slow_copy_us}, {"slow_launch_us", &slow_launch_us}, {"watchdog_ms", &watchdog_ms}};
  const std::map<std::string, int *> narrow = {{"driver", &driver}, {"devices", &devices}, {"sms", &multiprocessors}, {"init", &init}, {"peers", &peers}, {"machine_code", &machine_code}};
  uint64_t n = 0;
  if (auto w = wide.find(key); w != wide.end()) return number(v, w->second);
  if (auto w = narrow.find(key); w != narrow.end()) {
    bool ok = number(v, &n) && n < 1u << 30;
    *w->second = (int)n;
    return ok;
  }
  if (key == "name") {
    name = v;
    return true;
  }
  if (key == "jit_error") {
    jit_error = v;
    return true;
  }
  if (key == "report") {
    report = v;
    return true;
  }
  if (key == "cc") return sscanf(v.c_str(), "%d.%d", &major, &minor) == 2;
  if (key == "order") return read_order(v, &order);
  if (key == "fail") return fault(v, &faults);
  if (key == "lost") { // n:code, at the nth driver call of any kind
    uint64_t nth = 0;
    int code = 999;
    if (!nth_and_code(v, &nth, &code) || nth == 0) return false;
    faults.push_back({"*", nth, code, true, 0});
    return true;
  }
  if (key == "oom_at") {
    allocations = 0;
    return number(v, &oom_at);
  }
  if (key == "launch_fail") {
    launches = 0;
    launch_fault = 719;
    return nth_and_code(v, &launch_fault_at, &launch_fault);
  }
  if (key == "missing") {
    for (size_t i = 0; i < v.size();) {
      size_t comma = v.find(',', i);
      if (comma == std::string::npos) comma = v.size();
      missing.insert(v.substr(i, comma - i));
      i = comma + 1;
    }
    return true;
  }
  if (key.compare(0, 5, "attr.") == 0 && number(v, &n)) {
    attributes[atoi(key.c_str() + 5)] = (int)n;
    return true;
  }
  return false;
}

namespace {
struct Name {
  int code;
  const char *name, *text;
};
const Name names[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "CUDA driver is a stub library"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "CUDA-capable device(s) is/are busy or unavailable"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "peer access is not supported between these two devices"},
    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "the provided PTX was compiled with an unsupported toolchain."},
    {304, "CUDA_ERROR_OPERATING_SYSTEM", "OS call failed or operation not supported on this OS"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "the operation cannot be performed in the present state"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {709, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {704, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED", "peer access is already enabled"},
    {705, "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED", "peer access has not been enabled"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not yet initialized"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "system has unsupported display driver / cuda driver combination"},
    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"},
    {903, "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"},
    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"},
    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION", "dependency created on uncaptured work in another stream"},
    {999, "CUDA_ERROR_UNKNOWN", "unknown error"},
};
const Name *find(int code) {
  for (const Name &n : names)
    if (n.code == code) return &n;
  return nullptr;
}
} // namespace

const char *error_name(int code) {
  const Name *n = find(code);
  return n ? n->name : nullptr;
}

const char *error_text(int code) {
  const Name *n = find(code);
  return n ? n->text : nullptr;
}
