// Modules: PTX is checked, its entries are tied to the kernels that were compiled in.
#include "driver.h"
#include "ptx.h"

// The newest PTX that a driver's compiler takes: CUDA 11.0 brought 7.0, 12.0 8.0, 13.0 9.0.
static int ptx_of_driver(int driver) {
  int major = driver / 1000, minor = driver % 1000 / 10;
  if (major <= 10) return 60 + 3 + minor;
  return (major - 4) * 10 + minor;
}

static const char *plural(int n) { return n == 1 ? "" : "s"; }

// twin_mismatch compares the parameters of an entry with those of the C++ function of that name.
static std::string twin_mismatch(const PtxEntry &e, const gp_sim_kernel *k) {
  if ((int)e.params.size() != k->count)
    return "entry " + e.name + " takes " + std::to_string(e.params.size()) + " parameter" + plural((int)e.params.size()) + " in PTX, " +
           std::to_string(k->count) + " in " + k->file + "; regenerate the PTX";
  for (int i = 0; i < k->count; i++)
    if (e.params[(size_t)i].bytes != k->params[i].size)
      return "entry " + e.name + ", parameter " + std::to_string(i) + " is " + std::to_string(e.params[(size_t)i].bytes) + " bytes in PTX, " +
             std::to_string(k->params[i].size) + " in " + k->file + "; regenerate the PTX";
  return "";
}

// add_kernel ties an entry to the kernel of its name.
static void add_kernel(Module *m, const std::string &name, const gp_sim_kernel *k, size_t shared, int max_threads) {
  auto f = std::make_unique<Function>();
  f->name = name;
  f->kernel = k;
  f->module = m;
  f->static_shared = shared;
  f->max_threads = std::min(1024, max_threads);
  f->dynamic_limit = (int)(49152 - std::min<size_t>(49152, shared));
  m->functions[name] = std::move(f);
}

static int build(const std::string &text, Module *m, std::string *log) {
  Ptx ptx;
  if (!sim.config.jit_error.empty()) {
    *log = sim.config.jit_error;
    return INVALID_PTX;
  }
  *log = ptx_parse(text, &ptx);
  if (!log->empty()) return INVALID_PTX;
  if (ptx.version > ptx_of_driver(sim.config.driver)) {
    *log = "ptxas application ptx input, line 1; fatal   : Unsupported .version " + std::to_string(ptx.version / 10) + "." +
           std::to_string(ptx.version % 10) + "; current version is '" + std::to_string(ptx_of_driver(sim.config.driver) / 10) + "." +
           std::to_string(ptx_of_driver(sim.config.driver) % 10) + "'";
    return UNSUPPORTED_PTX_VERSION;
  }
  if (ptx.target > sim.config.major * 10 + sim.config.minor) {
    *log = "the PTX is for sm_" + std::to_string(ptx.target) + ", this device is sm_" + std::to_string(sim.config.major) +
           std::to_string(sim.config.minor);
    return NO_BINARY_FOR_GPU;
  }
  m->ptx_version = ptx.version;
  m->target = ptx.target;
  for (const PtxEntry &e : ptx.entries) {
    const gp_sim_kernel *k = find_kernel(e.name.c_str());
    if (!k) {
      m->without_twin.insert(e.name);
      continue;
    }
    *log = twin_mismatch(e, k);
    if (!log->empty()) return INVALID_PTX;
    add_kernel(m, e.name, k, e.shared, e.max_threads);
  }
  return OK;
}

// The parts of ELF64 that a cubin is looked at for (System V ABI, chapter 4).
struct ElfHead {
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, section_headers;
  uint32_t flags;
  uint16_t size, ph_size, ph_count, sh_size, sh_count, names;
};
struct ElfSection {
  uint32_t name, type;
  uint64_t flags, address, offset, size;
  uint32_t link, info;
  uint64_t align, each;
};

// take_code reads machine code: each section .text.NAME is a kernel, .nv.shared.NAME its shared memory.
static int take_code(const char *image, Module *m) {
  ElfHead head;
  memcpy(&head, image, sizeof head);
  // The generation moved in the flags when the format got version 8.
  int sm = head.ident[8] >= 8 ? (int)(head.flags >> 8 & 0xff) : (int)(head.flags & 0xff);
  if (!sim.config.machine_code || head.machine != 190 || sm / 10 != sim.config.major || sm % 10 > sim.config.minor) return NO_BINARY_FOR_GPU;
  auto section = [&](unsigned i) {
    ElfSection s;
    memcpy(&s, image + head.section_headers + (uint64_t)i * head.sh_size, sizeof s);
    return s;
  };
  const char *names = image + section(head.names).offset;
  std::map<std::string, size_t> shared;
  std::vector<std::string> kernels;
  for (unsigned i = 0; i < head.sh_count; i++) {
    ElfSection s = section(i);
    std::string name = names + s.name;
    if (name.rfind(".text.", 0) == 0) kernels.push_back(name.substr(6));
    if (name.rfind(".nv.shared.", 0) == 0) shared[name.substr(11)] = s.size;
  }
  m->target = sm;
  for (auto &name : kernels) {
    if (const gp_sim_kernel *k = find_kernel(name.c_str()))
      add_kernel(m, name, k, shared[name], 1024);
    else
      m->without_twin.insert(name);
  }
  return OK;
}

// The options of cuda.h: 3 and 5 are buffers for the information and error logs, 4 and 6 their sizes.
static void write_log(const std::string &log, unsigned n, const int *options, void **values) {
  char *buffer = nullptr;
  size_t size = 0;
  void **size_out = nullptr;
  for (unsigned i = 0; i < n; i++) {
    if (options[i] == 5) buffer = (char *)values[i];
    if (options[i] == 6) size = (size_t)(unsigned)(uintptr_t)values[i], size_out = &values[i];
  }
  if (!buffer || size == 0) return;
  size_t m = std::min(log.size(), size - 1);
  memcpy(buffer, log.data(), m);
  buffer[m] = 0;
  *size_out = (void *)(uintptr_t)m;
}

static int load(CUmodule *out, const void *image, unsigned n, const int *options, void **values) {
  if (!out || !image) return INVALID_VALUE;
  const char *text = (const char *)image;
  bool code = memcmp(text, "\x7f" "ELF", 4) == 0;
  if (int e = capture_forbids()) return e;
  auto m = std::make_unique<Module>();
  m->context = current;
  std::string log;
  if (int e = code ? take_code(text, m.get()) : build(text, m.get(), &log)) {
    write_log(log, n, options, values);
    return e;
  }
  write_log("", n, options, values);
  for (auto &f : m->functions) {
    sim.functions[f.second.get()] = m.get();
    sim.dead_handles.erase(f.second.get());
  }
  *out = m.get();
  sim.dead_handles.erase(m.get());
  sim.modules[m.get()] = std::move(m);
  return OK;
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned n, const int *options, void **values) {
  ENTER(cuModuleLoadDataEx, Context);
  return load(out, image, n, options, values);
}

EXPORT CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  ENTER(cuModuleLoadData, Context);
  return load(out, image, 0, nullptr, nullptr);
}

EXPORT CUresult cuModuleUnload(CUmodule h) {
  ENTER(cuModuleUnload, Cleanup);
  auto i = sim.modules.find((Module *)h);
  if (i == sim.modules.end()) return no_handle(h, "cuModuleUnload", "module");
  for (auto &f : i->first->functions) {
    sim.functions.erase(f.second.get());
    sim.dead_handles.insert(f.second.get());
  }
  sim.modules.erase(i);
  sim.dead_handles.insert(h);
  return call.error();
}

EXPORT CUresult cuModuleGetFunction(CUfunction *out, CUmodule h, const char *name) {
  ENTER(cuModuleGetFunction, Context);
  auto i = sim.modules.find((Module *)h);
  if (i == sim.modules.end()) return no_handle(h, "cuModuleGetFunction", "module");
  auto f = i->first->functions.find(name);
  if (f != i->first->functions.end()) {
    *out = f->second.get();
    return OK;
  }
  if (i->first->without_twin.count(name))
    sim.violation(std::string("kernel ") + name + " is in the PTX but not among the kernels compiled in: add GPUPROF_KERNEL(" + name +
                  ") after it, in a .cu file under workloads/ or internal/");
  return NOT_FOUND;
}
