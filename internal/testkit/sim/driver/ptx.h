// What the simulated compiler reads of a PTX text.
#pragma once

#include <string>
#include <vector>

struct PtxParam {
  std::string name;
  int bytes = 0;
};

struct PtxEntry {
  std::string name;
  std::vector<PtxParam> params;
  size_t shared = 0; // bytes of fixed size, its own and the module's
  int max_threads = 1024;
};

struct Ptx {
  int version = 0, target = 0; // 63 is 6.3, 75 is sm_75
  std::vector<PtxEntry> entries;
};

// ptx_parse reads text; the error is in the words of a JIT log, "" if there is none.
std::string ptx_parse(const std::string &text, Ptx *out);
