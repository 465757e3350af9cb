// A simulated NVRTC: the source is compiled for the CPU by the compiler that built the simulator, as one more library of
// kernels, and its "PTX" has the entry and its parameters, so that a module of it finds the kernel by name.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <string.h>
#include <unistd.h>

#include <string>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))
extern "C" int gpuprof_sim_parameters(const char *name, unsigned char *sizes, int room);
extern "C" int gpuprof_sim_enter(const char *function);

namespace {

enum { SUCCESS = 0, INVALID_INPUT = 3, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL = 11 };

struct Program {
  std::string text, log, ptx;
  std::vector<std::pair<std::string, std::string>> headers;
};

bool write(const std::string &path, const std::string &text) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1)) mkdir(path.substr(0, at).c_str(), 0700);
  FILE *f = fopen(path.c_str(), "w");
  if (!f) return false;
  bool whole = fwrite(text.data(), 1, text.size(), f) == text.size();
  return fclose(f) == 0 && whole;
}

std::string read(const std::string &path) {
  std::string s;
  if (FILE *f = fopen(path.c_str(), "r")) {
    char buffer[4096];
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;) s.append(buffer, n);
    fclose(f);
  }
  return s;
}

// entry is the first kernel that the source registers.
std::string entry(const std::string &text) {
  size_t at = text.rfind("GPUPROF_KERNEL(");
  if (at == std::string::npos) return "";
  at += sizeof "GPUPROF_KERNEL(" - 1;
  return text.substr(at, text.find(')', at) - at);
}

// key is a hash (FNV-1a, 64 bits) of the program's text and headers.
std::string key(const Program *p) {
  unsigned long long h = 14695981039346656037ull;
  auto add = [&h](const std::string &s) {
    for (unsigned char c : s + '\0') h = (h ^ c) * 1099511628211ull;
  };
  add(p->text);
  for (auto &header : p->headers) add(header.first), add(header.second);
  char text[32];
  snprintf(text, sizeof text, "%016llx", h);
  return text;
}

// build compiles the program in the folder dir into the library to, which links with the driver's library.
int build(Program *p, const std::string &dir, const std::string &to, const std::string &driver) {
  // Two folders deep, since headers are included through their parents.
  std::string at = dir + "/a/b/", unit = at + "unit.cpp";
  bool written = write(at + "kernel.cu", p->text);
  for (auto &h : p->headers)
    if (h.first.rfind("device_", 0) != 0) written = written && write(at + h.first, h.second);
  written = written && write(unit, "#include \"../../workloads/device/cuda/include/device.cuh\"\nnamespace {\n#include \"kernel.cu\"\n}\n");
  if (!written) return INTERNAL;
  std::string include = GPUPROF_SIM_INCLUDE;
  std::string command = "g++ -std=gnu++17 -O1 -shared -fPIC -pthread -fvisibility=hidden -ffp-contract=off -w -DGPUPROF_SIM -DGPUPROF_SIM_MODULE -I'" + include +
                        "' -x c++ '" + unit + "' -x none -o '" + to + "' '" + driver + "' 2>'" + dir + "/log'";
  if (system(command.c_str()) == 0) return SUCCESS;
  p->log = read(dir + "/log");
  return COMPILATION;
}

// compiled makes the library and opens it; the kernel registers itself. The library stays in the driver's folder,
// whose name holds a hash of the simulator with its headers: each program is compiled once for all processes.
int compiled(Program *p, const std::string &dir, const std::string &name) {
  unsigned char sizes[64];
  if (gpuprof_sim_parameters(name.c_str(), sizes, 64) >= 0) return SUCCESS;
  Dl_info driver;
  if (!dladdr((void *)gpuprof_sim_parameters, &driver)) return INTERNAL;
  std::string path = driver.dli_fname, folder = path.substr(0, path.rfind('/'));
  std::string library = folder + "/compiled-" + key(p) + ".so";
  if (access(library.c_str(), R_OK) != 0) {
    bool keep = access(folder.c_str(), W_OK) == 0;
    std::string to = keep ? library + "." + std::to_string(getpid()) : dir + "/kernel.so";
    if (int r = build(p, dir, to, path)) return r;
    if (!keep) library = to;
    else if (rename(to.c_str(), library.c_str()) != 0) return INTERNAL;
  }
  if (!dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    p->log = dlerror();
    return INTERNAL;
  }
  return SUCCESS;
}

} // namespace

EXPORT int nvrtcVersion(int *major, int *minor) {
  *major = 12, *minor = 8;
  return SUCCESS;
}
EXPORT const char *nvrtcGetErrorString(int status) {
  return status == SUCCESS ? "NVRTC_SUCCESS" : status == COMPILATION ? "NVRTC_ERROR_COMPILATION" : status == INVALID_OPTION ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR";
}
EXPORT int nvrtcGetNumSupportedArchs(int *n) {
  *n = 3;
  return SUCCESS;
}
EXPORT int nvrtcGetSupportedArchs(int *to) {
  to[0] = 75, to[1] = 80, to[2] = 90;
  return SUCCESS;
}
EXPORT int nvrtcCreateProgram(Program **program, const char *text, const char *, int n, const char *const *headers, const char *const *names) {
  if (int r = gpuprof_sim_enter("nvrtcCreateProgram")) return r < 0 ? -r : INTERNAL;
  if (!text) return INVALID_INPUT;
  *program = new Program{text, "", "", {}};
  for (int i = 0; i < n; i++) (*program)->headers.push_back({names[i], headers[i]});
  return SUCCESS;
}
EXPORT int nvrtcDestroyProgram(Program **program) {
  delete *program;
  *program = nullptr;
  return SUCCESS;
}
EXPORT int nvrtcCompileProgram(Program *p, int n, const char *const *options) {
  if (int r = gpuprof_sim_enter("nvrtcCompileProgram")) {
    p->log = "gpuprof.cu(1): error: planted by a test";
    return r < 0 ? -r : INTERNAL;
  }
  std::string arch;
  for (int i = 0; i < n; i++)
    if (std::string(options[i]).rfind("--gpu-architecture=", 0) == 0) arch = std::string(options[i]).substr(19);
  size_t digits = arch.find('_');
  std::string name = entry(p->text);
  if (digits == std::string::npos || name.empty()) return INVALID_OPTION;
  const char *tmp = getenv("TMPDIR");
  std::string dir = std::string(tmp && *tmp ? tmp : "/tmp") + "/gpuprof-sim-nvrtc-XXXXXX";
  if (!mkdtemp(&dir[0])) return INTERNAL;
  int r = compiled(p, dir, name);
  if (system(("rm -rf '" + dir + "'").c_str()) != 0) r = r ? r : INTERNAL;
  if (r != SUCCESS) return r;
  unsigned char sizes[64];
  int count = gpuprof_sim_parameters(name.c_str(), sizes, 64);
  if (count < 0 || count > 64) return INTERNAL;
  p->ptx = ".version 7.0\n.target sm_" + arch.substr(digits + 1) + "\n.address_size 64\n.visible .entry " + name + "(\n";
  for (int i = 0; i < count; i++)
    p->ptx += "\t.param .b" + std::to_string(8 * sizes[i]) + " p" + std::to_string(i) + (i + 1 < count ? ",\n" : "\n");
  p->ptx += ")\n{\n\tret;\n}\n"; // without .maxntid: the simulator's compiler does not see __launch_bounds__
  return SUCCESS;
}
EXPORT int nvrtcGetProgramLogSize(Program *p, size_t *n) {
  *n = p->log.size() + 1;
  return SUCCESS;
}
EXPORT int nvrtcGetProgramLog(Program *p, char *to) {
  memcpy(to, p->log.c_str(), p->log.size() + 1);
  return SUCCESS;
}
EXPORT int nvrtcGetPTXSize(Program *p, size_t *n) {
  *n = p->ptx.size() + 1;
  return p->ptx.empty() ? INVALID_PROGRAM : SUCCESS;
}
EXPORT int nvrtcGetPTX(Program *p, char *to) {
  memcpy(to, p->ptx.c_str(), p->ptx.size() + 1);
  return SUCCESS;
}
// Machine code is of no use to the simulated driver: there is none.
EXPORT int nvrtcGetCUBINSize(Program *, size_t *n) {
  *n = 0;
  return SUCCESS;
}
EXPORT int nvrtcGetCUBIN(Program *, char *) { return SUCCESS; }
