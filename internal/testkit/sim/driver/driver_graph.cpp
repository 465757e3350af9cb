// Capture and graphs. A graph runs its nodes one after the other in the order they were captured, which respects
// every dependency; branches do not overlap.
#include "driver.h"

EXPORT CUresult cuStreamBeginCapture_v2(CUstream h, int mode) {
  ENTER(cuStreamBeginCapture_v2, Context);
  if (!h || mode < 0 || mode > 2) return h ? INVALID_VALUE : CAPTURE_UNSUPPORTED;
  Stream *s = stream_of(h, "cuStreamBeginCapture");
  if (!s) return INVALID_HANDLE;
  if (s->capture) return 401; // CUDA_ERROR_ILLEGAL_STATE
  auto c = std::make_unique<Capture>();
  c->origin = s;
  c->mode = mode;
  c->thread = std::this_thread::get_id();
  c->members.insert(s);
  s->capture = c.get();
  s->capture_clock = Clock{};
  sim.captures[c.get()] = std::move(c);
  return OK;
}

EXPORT CUresult cuStreamIsCapturing(CUstream h, int *status) {
  ENTER(cuStreamIsCapturing, Context);
  Stream *s = stream_of(h, "cuStreamIsCapturing");
  if (!s) return INVALID_HANDLE;
  *status = !s->capture ? 0 : s->capture->invalid ? 2 : 1;
  return OK;
}

EXPORT CUresult cuStreamEndCapture(CUstream h, CUgraph *out) {
  ENTER(cuStreamEndCapture, Cleanup);
  *out = nullptr;
  Stream *s = stream_of(h, "cuStreamEndCapture");
  if (!s) return INVALID_HANDLE;
  Capture *c = s->capture;
  if (!c) return 401;
  if (c->origin != s) return capture_spoil(c, CAPTURE_UNMATCHED);
  bool unjoined = false;
  for (Stream *m : c->members) {
    unjoined |= c->unjoined.count(m) != 0;
    m->capture = nullptr;
  }
  for (auto &e : sim.events)
    if (e.first->capture == c) e.first->capture = nullptr;
  auto g = std::make_unique<Graph>();
  g->context = current;
  g->nodes = c->nodes;
  bool invalid = c->invalid;
  sim.captures.erase(c);
  if (call.error()) return call.error();
  if (invalid) return CAPTURE_INVALIDATED;
  if (unjoined) return CAPTURE_UNJOINED;
  *out = g.get();
  sim.dead_handles.erase(g.get());
  sim.graphs[g.get()] = std::move(g);
  return OK;
}

static Graph *graph_of(void *h, bool executable, const char *function) {
  auto i = sim.graphs.find((Graph *)h);
  if (i != sim.graphs.end() && i->first->executable == executable) return i->first;
  no_handle(h, function, executable ? "executable graph" : "graph");
  return nullptr;
}

static int instantiate(CUgraphExec *out, CUgraph h, const char *function) {
  Graph *g = graph_of(h, false, function);
  if (!g) return INVALID_HANDLE;
  auto x = std::make_unique<Graph>(*g);
  x->executable = true;
  x->number = sim.next_graph++;
  *out = x.get();
  sim.dead_handles.erase(x.get());
  sim.graphs[x.get()] = std::move(x);
  return OK;
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long) {
  ENTER(cuGraphInstantiateWithFlags, Context);
  return instantiate(out, g, "cuGraphInstantiateWithFlags");
}

EXPORT CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *node, char *log, size_t n) {
  ENTER(cuGraphInstantiate_v2, Context);
  if (node) *node = nullptr;
  if (log && n) log[0] = 0;
  return instantiate(out, g, "cuGraphInstantiate");
}

EXPORT CUresult cuGraphGetNodes(CUgraph h, CUgraphNode *nodes, size_t *n) {
  ENTER(cuGraphGetNodes, Context);
  Graph *g = graph_of(h, false, "cuGraphGetNodes");
  if (!g) return INVALID_HANDLE;
  size_t room = *n;
  if (!nodes) {
    *n = g->nodes.size();
    return OK;
  }
  for (size_t i = 0; i < room; i++) nodes[i] = i < g->nodes.size() ? g->nodes[i].get() : nullptr;
  *n = std::min(room, g->nodes.size());
  return OK;
}

static int destroy(Call &call, void *h, bool executable, const char *function) {
  Graph *g = graph_of(h, executable, function);
  if (!g) return INVALID_HANDLE;
  sim.graphs.erase(g); // a launch in flight keeps its nodes
  sim.dead_handles.insert(h);
  return call.error();
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec x) {
  ENTER(cuGraphExecDestroy, Cleanup);
  return destroy(call, x, true, "cuGraphExecDestroy");
}

EXPORT CUresult cuGraphDestroy(CUgraph g) {
  ENTER(cuGraphDestroy, Cleanup);
  return destroy(call, g, false, "cuGraphDestroy");
}

EXPORT CUresult cuGraphLaunch(CUgraphExec h, CUstream sh) {
  ENTER(cuGraphLaunch, Context);
  Graph *g = graph_of(h, true, "cuGraphLaunch");
  Stream *s = stream_of(sh, "cuGraphLaunch");
  if (!g || !s) return INVALID_HANDLE;
  if (s->capture) return capture_spoil(s->capture, CAPTURE_UNSUPPORTED); // child graphs are not simulated
  auto w = std::make_shared<Work>();
  w->what = "a graph";
  w->always = true; // for the events among its nodes
  for (const WorkRef &node : g->nodes) {
    for (const Touch &t : node->touches) {
      if (!sim.by_id.count(t.id)) {
        sim.violation(std::string("cuGraphLaunch: ") + node->what + " in the graph uses a buffer that was freed since");
        return INVALID_VALUE;
      }
      w->touches.push_back(t);
    }
    if (node->records) {
      std::lock_guard<std::mutex> hold(node->records->mu);
      node->records->recorded++;
    }
  }
  sim.counts.graph_launches++;
  w->shown.kind = 51, w->shown.graph = g->number;
  w->run = [nodes = g->nodes, number = g->number](Stream &here) {
    for (const WorkRef &node : nodes) run_work(node, here, number);
  };
  submit(s, w);
  for (const WorkRef &node : g->nodes)
    if (node->records) node->records->clock = s->clock;
  return OK;
}
