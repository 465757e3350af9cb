// Copies from one device's memory to another's, and the access between their contexts.
#include "driver.h"

static Context *context_of(CUcontext h) {
  for (auto &c : sim.contexts)
    if (c.second.get() == (Context *)h) return c.second.get();
  return nullptr;
}

EXPORT CUresult cuDeviceCanAccessPeer(int *can, int device, int peer) {
  ENTER(cuDeviceCanAccessPeer, Init);
  if (!can) return INVALID_VALUE;
  for (int d : {device, peer})
    if (d < 0 || d >= sim.config.devices) return INVALID_DEVICE;
  *can = device != peer && sim.config.peers;
  return OK;
}

EXPORT CUresult cuCtxEnablePeerAccess(CUcontext h, unsigned flags) {
  ENTER(cuCtxEnablePeerAccess, Context);
  Context *peer = context_of(h);
  if (flags != 0) return INVALID_VALUE;
  if (!peer) return INVALID_CONTEXT;
  if (peer == current) return INVALID_DEVICE;
  if (!sim.config.peers) return PEER_ACCESS_UNSUPPORTED;
  return current->peers.insert(peer->device).second ? OK : PEER_ACCESS_ALREADY_ENABLED;
}

EXPORT CUresult cuCtxDisablePeerAccess(CUcontext h) {
  ENTER(cuCtxDisablePeerAccess, Cleanup);
  Context *peer = context_of(h);
  if (!peer) return INVALID_CONTEXT;
  return current->peers.erase(peer->device) ? OK : PEER_ACCESS_NOT_ENABLED;
}

// end checks one side: memory of that context, and none of a pool, which peers reach only by leave.
static std::string end(Work &w, CUdeviceptr p, Context *c, size_t n, bool write) {
  std::string what = write ? "the destination" : "the source", wrong = touch(w, (void *)p, n, write, what.c_str());
  if (!wrong.empty()) return wrong;
  Alloc *a = alloc_at((void *)p);
  if (a->context != c) return what + " is " + describe((void *)p) + " of another device than the call says";
  if (a->place == Place::Pool) return what + " is " + describe((void *)p) + " of a pool, to which peers have no access";
  return "";
}

EXPORT CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext to, CUdeviceptr src, CUcontext from, size_t n, CUstream h) {
  ENTER(cuMemcpyPeerAsync, Context);
  Stream *s = stream_of(h, "cuMemcpyPeerAsync");
  if (!s) return INVALID_HANDLE;
  Context *d = context_of(to), *o = context_of(from);
  if (!d || !o) return INVALID_CONTEXT;
  if (n == 0) return OK;
  auto w = std::make_shared<Work>();
  w->what = "cuMemcpyPeerAsync";
  for (bool write : {false, true}) {
    std::string wrong = write ? end(*w, dst, d, n, true) : end(*w, src, o, n, false);
    if (wrong.empty()) continue;
    sim.violation("cuMemcpyPeerAsync: " + wrong);
    return INVALID_VALUE;
  }
  w->shown.kind = 1, w->shown.bytes = n, w->shown.copy = 10, w->shown.from = w->shown.to = 3;
  sim.counts.copies++;
  sim.counts.copied_bytes += n;
  w->run = [dst, src, n](Stream &) { memmove((void *)dst, (void *)src, n); };
  return submit(s, w);
}
