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

// compiled makes the library and opens it; the kernel registers itself. What was compiled before stays.
int compiled(Program *p, const std::string &dir, const std::string &name) {
  unsigned char sizes[64];
  if (gpuprof_sim_parameters(name.c_str(), sizes, 64) >= 0) return SUCCESS;
  // Two folders deep, since headers are included through their parents.
  std::string at = dir + "/a/b/", unit = at + "unit.cpp";
  bool written = write(at + "kernel.cu", p->text);
  for (auto &h : p->headers)
    if (h.first.rfind("device_", 0) != 0) written = written && write(at + h.first, h.second);
  written = written && write(unit, "#include \"../../workloads/device/cuda/include/device.cuh\"\nnamespace {\n#include \"kernel.cu\"\n}\n");
  Dl_info driver;
  if (!written || !dladdr((void *)gpuprof_sim_parameters, &driver)) return INTERNAL;
  std::string include = GPUPROF_SIM_INCLUDE;
  std::string command = "g++ -std=gnu++17 -O1 -shared -fPIC -pthread -fvisibility=hidden -ffp-contract=off -w -DGPUPROF_SIM -DGPUPROF_SIM_MODULE -I'" + include +
                        "' -x c++ '" + unit + "' -x none -o '" + dir + "/kernel.so' '" + driver.dli_fname + "' 2>'" + dir + "/log'";
  if (system(command.c_str()) != 0) {
    p->log = read(dir + "/log");
    return COMPILATION;
  }
  if (!dlopen((dir + "/kernel.so").c_str(), RTLD_NOW | RTLD_LOCAL)) {
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
