#include "ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <set>

namespace {

struct Token {
  std::string text;
  int line;
};

// The words that may start an instruction, up to their first dot.
const std::set<std::string> opcodes = {
    "abs",    "activemask", "add",   "addc",   "alloca", "and",     "applypriority", "atom",  "bar",    "barrier", "bfe",   "bfi",
    "bfind",  "bmsk",       "bra",   "brev",   "brkpt",  "brx",     "call",          "clusterlaunchcontrol", "clz", "cnot", "copysign",
    "cos",    "cp",         "createpolicy", "cvt", "cvta", "discard", "div",         "dp2a",  "dp4a",   "elect",   "ex2",   "exit",
    "fence",  "fma",        "fns",   "getctarank", "griddepcontrol", "isspacep", "istypep", "ld", "ldmatrix", "ldu", "lg2",  "lop3",
    "mad",    "mad24",      "madc",  "mapa",   "match",  "max",     "mbarrier",      "membar", "min",   "mma",     "mov",   "movmatrix",
    "mul",    "mul24",      "multimem", "nanosleep", "neg", "not",  "or",            "pmevent", "popc", "prefetch", "prefetchu", "prmt",
    "rcp",    "red",        "redux", "rem",    "ret",    "rsqrt",   "sad",           "selp",  "set",    "setmaxnreg", "setp", "shf",
    "shfl",   "shl",        "shr",   "sin",    "slct",   "sqrt",    "st",            "stackrestore", "stacksave", "stmatrix", "sub", "subc",
    "suld",   "suq",        "sured", "sust",   "szext",  "tanh",    "tcgen05",       "tensormap", "testp", "tex",   "tld4",  "trap",
    "txq",    "vabsdiff",   "vadd",  "vmad",   "vmax",   "vmin",    "vote",          "vset",  "vshl",   "vshr",    "vsub",  "wgmma",
    "wmma",   "xor"};

bool word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.'; }

// tokens splits into words and single signs, without comments and strings.
std::vector<Token> tokens(const std::string &s) {
  std::vector<Token> out;
  int line = 1;
  for (size_t i = 0; i < s.size();) {
    if (s[i] == '\n') line++;
    if (isspace((unsigned char)s[i])) {
      i++;
    } else if (s.compare(i, 2, "//") == 0) {
      while (i < s.size() && s[i] != '\n') i++;
    } else if (s.compare(i, 2, "/*") == 0) {
      size_t end = s.find("*/", i + 2);
      end = end == std::string::npos ? s.size() : end + 2;
      for (; i < end; i++) line += s[i] == '\n';
    } else if (s[i] == '"') {
      size_t end = s.find('"', i + 1);
      i = end == std::string::npos ? s.size() : end + 1;
      out.push_back({"\"\"", line});
    } else if (word(s[i])) {
      size_t b = i;
      while (i < s.size() && word(s[i])) i++;
      out.push_back({s.substr(b, i - b), line});
    } else {
      out.push_back({std::string(1, s[i++]), line});
    }
  }
  return out;
}

int type_bytes(const std::string &t) {
  if (t == ".pred") return 1;
  if (t.size() < 3 || t[0] != '.' || !strchr("busf", t[1])) return 0;
  int bits = atoi(t.c_str() + 2);
  return bits == 8 || bits == 16 || bits == 32 || bits == 64 || bits == 128 ? bits / 8 : 0;
}

class Parser {
public:
  Parser(std::vector<Token> t, Ptx *out) : tok(std::move(t)), ptx(out) {}

  std::string run() {
    while (error.empty() && i < tok.size()) top();
    if (!error.empty()) return error;
    if (ptx->version == 0) return fatal(1, "Missing .version directive at start of file");
    if (ptx->target == 0) return fatal(1, "Missing .target directive");
    for (auto &e : ptx->entries) e.shared += module_shared;
    return "";
  }

private:
  std::vector<Token> tok;
  Ptx *ptx;
  size_t i = 0, module_shared = 0;
  std::string error;

  std::string fatal(int line, const std::string &what) {
    if (error.empty()) error = "ptxas application ptx input, line " + std::to_string(line) + "; fatal   : " + what;
    i = tok.size();
    return error;
  }
  void unexpected() {
    if (i < tok.size()) fatal(tok[i].line, "Parsing error near '" + tok[i].text + "': syntax error");
    else fatal(tok.empty() ? 1 : tok.back().line, "Parsing error near '<end of file>': syntax error");
  }
  bool is(const char *s) const { return i < tok.size() && tok[i].text == s; }
  bool take(const char *s) {
    if (!is(s)) return false;
    i++;
    return true;
  }

  void top() {
    if (take(".version")) {
      int major = 0, minor = 0;
      if (i >= tok.size() || sscanf(tok[i].text.c_str(), "%d.%d", &major, &minor) != 2) return unexpected();
      ptx->version = major * 10 + minor;
      i++;
    } else if (take(".target")) {
      if (ptx->version == 0) return (void)fatal(tok[i - 1].line, "Missing .version directive at start of file");
      if (i >= tok.size() || sscanf(tok[i].text.c_str(), "sm_%d", &ptx->target) != 1) return unexpected();
      i++;
      while (take(",")) i++;
    } else if (take(".address_size")) {
      if (!take("64")) return unexpected();
    } else if (take(".entry")) {
      entry();
    } else if (take(".func")) {
      while (i < tok.size() && !is("{") && !is(";")) i++;
      if (!take(";")) body(nullptr);
    } else if (is(".visible") || is(".weak") || is(".extern") || is(".common")) {
      i++;
    } else if (is(".shared") || is(".global") || is(".const")) {
      variable(&module_shared);
    } else if (is(".file") || is(".section") || is(".loc") || is(".pragma") || is(".alias")) {
      directive();
    } else {
      unexpected();
    }
  }

  // A directive of debugging information ends with its line, or its braces.
  void directive() {
    int line = tok[i].line;
    while (i < tok.size() && tok[i].line == line) i++;
    if (!take("{")) return;
    while (i < tok.size() && !take("}")) i++;
  }

  // variable reads ".shared .align 4 .b8 name[128] = {…};" and counts it if it is shared memory of a fixed size.
  void variable(size_t *shared) {
    bool counts = is(".shared");
    bool external = i > 0 && tok[i - 1].text == ".extern";
    size_t bytes = 0;
    for (; i < tok.size() && !is(";") && !is("="); i++) {
      if (int b = type_bytes(tok[i].text)) bytes = (size_t)b;
      if (is("[") && i + 1 < tok.size() && isdigit((unsigned char)tok[i + 1].text[0])) bytes *= strtoull(tok[i + 1].text.c_str(), nullptr, 10);
    }
    while (i < tok.size() && !is(";")) i++;
    if (!take(";")) return unexpected();
    if (counts && !external) *shared += bytes;
  }

  void entry() {
    PtxEntry e;
    if (i >= tok.size()) return unexpected();
    e.name = tok[i++].text;
    if (!take("(")) return unexpected();
    while (!is(")")) {
      PtxParam p;
      if (!take(".param")) return unexpected();
      for (; i < tok.size() && !is(",") && !is(")"); i++) {
        if (is(".align")) i++;
        else if (int b = type_bytes(tok[i].text)) p.bytes = b;
        else if (is("[") && i + 1 < tok.size()) p.bytes *= atoi(tok[++i].text.c_str());
        else if (!is("]") && !is(".ptr") && tok[i].text[0] != '.') p.name = tok[i].text;
      }
      if (p.bytes == 0) return unexpected();
      e.params.push_back(p);
      take(",");
    }
    i++;
    while (i < tok.size() && !is("{")) {
      if (is(".maxntid")) {
        int n = 1;
        for (i++; i < tok.size() && (is(",") || isdigit((unsigned char)tok[i].text[0])); i++)
          if (!is(",")) n *= atoi(tok[i].text.c_str());
        e.max_threads = n;
      } else if (tok[i].text[0] == '.' || is(",") || isdigit((unsigned char)tok[i].text[0])) {
        i++;
      } else {
        return unexpected();
      }
    }
    body(&e);
    if (error.empty()) ptx->entries.push_back(e);
  }

  // body reads statements up to the closing brace: each starts with a directive, a label, a predicate or a known opcode.
  void body(PtxEntry *e) {
    if (!take("{")) return unexpected();
    for (int depth = 1; depth > 0;) {
      if (i >= tok.size()) return unexpected();
      if (take("{")) {
        depth++;
      } else if (take("}")) {
        depth--;
      } else if (is(".shared")) {
        size_t none = 0;
        variable(e ? &e->shared : &none);
      } else if (is(".loc")) {
        directive();
      } else if (tok[i].text[0] == '.') {
        rest();
      } else if (i + 1 < tok.size() && tok[i + 1].text == ":") {
        i += 2;
      } else {
        if (take("@")) {
          take("!");
          i++;
        }
        if (i >= tok.size()) return unexpected();
        std::string op = tok[i].text.substr(0, tok[i].text.find('.'));
        if (!opcodes.count(op)) return (void)fatal(tok[i].line, "Parsing error near '" + tok[i].text + "': syntax error");
        rest();
      }
      if (!error.empty()) return;
    }
  }

  // rest skips to the semicolon; braces inside are operand lists.
  void rest() {
    int depth = 0;
    for (; i < tok.size(); i++) {
      if (is("{")) depth++;
      if (is("}") && --depth < 0) return unexpected();
      if (is(";") && depth <= 0) break;
    }
    if (!take(";")) unexpected();
  }
};

} // namespace

std::string ptx_parse(const std::string &text, Ptx *out) { return Parser(tokens(text), out).run(); }
