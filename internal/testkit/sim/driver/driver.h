// What every exported function starts with.
#pragma once

#include <string.h>

#include "state.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

typedef int CUresult;
typedef void *CUcontext, *CUmodule, *CUfunction, *CUstream, *CUevent, *CUgraph, *CUgraphExec, *CUgraphNode, *CUmemoryPool;
typedef unsigned long long CUdeviceptr;

// How much of a state a call needs. Cleanup works in a dead context too, and then returns its error.
enum class Need { Nothing, Init, Context, Cleanup };

// Call holds the lock for one driver call, counts it, and has the error it must return at once, if any.
struct Call {
  std::unique_lock<std::mutex> hold;
  int code = OK;
  bool planted = false; // the code is a fault that was asked for under this function's name
  const char *function;
  uint32_t outer; // the call around this one, 0 none
  int64_t began;
  Call(const char *function, Need);
  ~Call();
  // error is the sticky error of the current context, 0 if none.
  int error() const { return current ? current->error.load() : OK; }
};

#define ENTER(function, need)       \
  Call call(#function, Need::need); \
  if (call.code) return call.code

// stream_of resolves a handle; null (with a violation where it was destroyed) if it is none of the current context.
Stream *stream_of(CUstream, const char *function);
EventRef event_of(CUevent, const char *function);

// no_handle notes the use of what is not, or no longer, a handle, and returns INVALID_HANDLE.
int no_handle(const void *h, const char *function, const char *kind);

// capture_forbids is 900, and the captures are spoilt, where a capture in progress does not allow such a call.
int capture_forbids();
int capture_spoil(Capture *, int code);

// release gives memory back: order checked, work in flight waited for.
int release(std::unique_lock<std::mutex> &, Alloc *, const char *what);
