// What the tests ask of the simulated driver: the machine it pretends to be, and faults.
#pragma once

#include <stdint.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "exec.h"

// Fault makes the nth call (counted from its configuration) of a function return an error.
struct Fault {
  std::string function; // "*" is any
  uint64_t nth = 1;
  int code = 0;
  bool sticky = false;
  uint64_t seen = 0;
};

struct Config {
  int driver = 12080, devices = 1, major = 9, minor = 0, multiprocessors = 8, init = 0, peers = 1, machine_code = 0;
  uint64_t memory = 2ull << 30, pinned = 4ull << 30, poison = 16ull << 20;
  std::string name = "gpuprof simulated device";
  std::set<std::string> missing;
  std::map<int, int> attributes;
  std::vector<Fault> faults;
  uint64_t oom_at = 0, allocations = 0;                       // the nth allocation of any kind
  uint64_t launch_fault_at = 0, launches = 0;                 // the nth kernel to be launched dies
  int launch_fault = 719;
  uint64_t slow_copy_us = 0, slow_launch_us = 0, watchdog_ms = 60000;
  std::string jit_error;
  std::string report; // file that gets the report at every retain and release of a context
  Order order;

  // set takes one key and value; false when it knows no such key or cannot read the value.
  bool set(const std::string &key, const std::string &value);
};

// error_name and error_text are cuda.h's; null for a number it does not have.
const char *error_name(int code);
const char *error_text(int code);
