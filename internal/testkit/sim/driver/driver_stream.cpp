// Streams, events and their order.
#include "driver.h"

Stream *stream_of(CUstream h, const char *function) {
  if (!h) {
    // Without the legacy stream's implicit waits, which nothing here relies on.
    if (!current->null_stream) current->null_stream = stream_new(current, 0, 0);
    return current->null_stream.get();
  }
  auto i = sim.streams.find((Stream *)h);
  if (i == sim.streams.end()) {
    no_handle(h, function, "stream");
    return nullptr;
  }
  if (i->first->context != current) {
    sim.violation(std::string(function) + ": the stream belongs to another context than the current one");
    return nullptr;
  }
  return i->first;
}

EventRef event_of(CUevent h, const char *function) {
  auto i = sim.events.find((Event *)h);
  if (i != sim.events.end()) return i->second;
  no_handle(h, function, "event");
  return nullptr;
}

int capture_spoil(Capture *c, int code) {
  c->invalid = true;
  return code;
}

int capture_forbids() {
  int code = OK;
  for (auto &c : sim.captures)
    if (c.first->mode == 0 || (c.first->mode == 1 && c.first->thread == std::this_thread::get_id()))
      code = capture_spoil(c.first, CAPTURE_UNSUPPORTED);
  return code;
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *out, unsigned flags, int priority) {
  ENTER(cuStreamCreateWithPriority, Context);
  if (!out || flags > 1) return INVALID_VALUE;
  StreamRef s = stream_new(current, flags, std::max(-5, std::min(0, priority)));
  sim.dead_handles.erase(s.get());
  *out = s.get();
  return OK;
}

EXPORT CUresult cuStreamCreate(CUstream *out, unsigned flags) {
  ENTER(cuStreamCreate, Context);
  if (!out || flags > 1) return INVALID_VALUE;
  StreamRef s = stream_new(current, flags, 0);
  sim.dead_handles.erase(s.get());
  *out = s.get();
  return OK;
}

EXPORT CUresult cuStreamGetPriority(CUstream h, int *priority) {
  ENTER(cuStreamGetPriority, Context);
  Stream *s = stream_of(h, "cuStreamGetPriority");
  if (!s) return INVALID_HANDLE;
  *priority = s->priority;
  return OK;
}

EXPORT CUresult cuStreamDestroy_v2(CUstream h) {
  ENTER(cuStreamDestroy_v2, Cleanup);
  auto i = sim.streams.find((Stream *)h);
  if (!h || i == sim.streams.end()) return no_handle(h, "cuStreamDestroy", "stream");
  StreamRef s = i->second;
  if (s->capture) {
    sim.violation("cuStreamDestroy of a stream that is capturing");
    capture_spoil(s->capture, OK);
    s->capture->members.erase(s.get());
    if (s->capture->origin == s.get()) {
      Capture *c = s->capture;
      for (Stream *m : c->members) m->capture = nullptr;
      sim.captures.erase(c);
    }
    s->capture = nullptr;
  }
  // Its work goes on; the thread is joined with the context, or sooner when it is already idle.
  stream_quit(s.get());
  sim.finishing.push_back(s);
  sim.streams.erase(i);
  sim.dead_handles.insert(h);
  for (auto f = sim.finishing.begin(); f != sim.finishing.end();) {
    bool idle;
    {
      std::lock_guard<std::mutex> hold((*f)->mu);
      idle = (*f)->done >= (*f)->queued;
    }
    if (!idle || (*f)->context->error != OK) {
      ++f;
      continue;
    }
    (*f)->worker.join(); // past its last piece of work it takes no lock of ours
    f = sim.finishing.erase(f);
  }
  return call.error();
}

EXPORT CUresult cuStreamSynchronize(CUstream h) {
  ENTER(cuStreamSynchronize, Context);
  Stream *s = stream_of(h, "cuStreamSynchronize");
  if (!s) return INVALID_HANDLE;
  if (s->capture) return capture_spoil(s->capture, CAPTURE_UNSUPPORTED);
  StreamRef keep = h ? sim.streams[s] : current->null_stream;
  Context *c = current;
  uint64_t target = s->queued;
  Clock known = s->clock;
  call.hold.unlock();
  stream_wait(keep.get(), target);
  call.hold.lock();
  sim.host.join(known);
  return c->error;
}

EXPORT CUresult cuStreamQuery(CUstream h) {
  ENTER(cuStreamQuery, Context);
  Stream *s = stream_of(h, "cuStreamQuery");
  if (!s) return INVALID_HANDLE;
  if (s->capture) return capture_spoil(s->capture, CAPTURE_UNSUPPORTED);
  {
    std::lock_guard<std::mutex> hold(s->mu);
    if (s->done < s->queued) return NOT_READY;
  }
  sim.host.join(s->clock);
  return current->error;
}

EXPORT CUresult cuEventCreate(CUevent *out, unsigned flags) {
  ENTER(cuEventCreate, Context);
  if (!out || flags > 7) return INVALID_VALUE;
  auto e = std::make_shared<Event>();
  e->flags = flags;
  e->context = current;
  sim.dead_handles.erase(e.get());
  sim.events[e.get()] = e;
  *out = e.get();
  return OK;
}

EXPORT CUresult cuEventDestroy_v2(CUevent h) {
  ENTER(cuEventDestroy_v2, Cleanup);
  EventRef e = event_of(h, "cuEventDestroy");
  if (!e) return INVALID_HANDLE;
  sim.events.erase(e.get()); // work in flight keeps it
  sim.dead_handles.insert(h);
  return call.error();
}

static int record(CUevent h, CUstream sh, bool external, const char *function) {
  EventRef e = event_of(h, function);
  Stream *s = stream_of(sh, function);
  if (!e || !s) return INVALID_HANDLE;
  if (e->context != s->context) return INVALID_HANDLE;
  auto w = std::make_shared<Work>();
  w->what = "an event";
  w->always = true;
  if (s->capture) {
    if (!external) { // only an order inside the graph
      e->capture = s->capture;
      e->clock = s->capture_clock;
      return OK;
    }
    w->records = e;
    w->run = [e](Stream &) { event_done(*e, 0); };
    return submit(s, w);
  }
  if (external) return INVALID_VALUE;
  uint64_t sequence;
  {
    std::lock_guard<std::mutex> hold(e->mu);
    sequence = ++e->recorded;
  }
  e->capture = nullptr;
  e->external = false;
  w->run = [e, sequence](Stream &) { event_done(*e, sequence); };
  submit(s, w);
  e->clock = s->clock;
  return OK;
}

EXPORT CUresult cuEventRecord(CUevent e, CUstream s) {
  ENTER(cuEventRecord, Context);
  return record(e, s, false, "cuEventRecord");
}

EXPORT CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned flags) {
  ENTER(cuEventRecordWithFlags, Context);
  if (flags > 1) return INVALID_VALUE;
  return record(e, s, flags == 1, "cuEventRecordWithFlags");
}

EXPORT CUresult cuEventQuery(CUevent h) {
  ENTER(cuEventQuery, Context);
  EventRef e = event_of(h, "cuEventQuery");
  if (!e) return INVALID_HANDLE;
  if (e->capture) return capture_spoil(e->capture, CAPTURED_EVENT);
  {
    std::lock_guard<std::mutex> hold(e->mu);
    if (e->done < e->recorded) return NOT_READY;
  }
  sim.host.join(e->clock);
  return current->error;
}

EXPORT CUresult cuEventSynchronize(CUevent h) {
  ENTER(cuEventSynchronize, Context);
  EventRef e = event_of(h, "cuEventSynchronize");
  if (!e) return INVALID_HANDLE;
  if (e->capture) return capture_spoil(e->capture, CAPTURED_EVENT);
  Context *c = current;
  Clock known = e->clock;
  call.hold.unlock();
  {
    std::unique_lock<std::mutex> hold(e->mu);
    uint64_t target = e->recorded;
    e->cv.wait(hold, [&] { return e->done >= target; });
  }
  call.hold.lock();
  sim.host.join(known);
  return c->error;
}

static int elapsed(float *ms, CUevent from, CUevent to, const char *function) {
  EventRef a = event_of(from, function), b = event_of(to, function);
  if (!a || !b) return INVALID_HANDLE;
  int64_t at[2];
  Event *both[] = {a.get(), b.get()};
  for (int i = 0; i < 2; i++) {
    std::lock_guard<std::mutex> hold(both[i]->mu);
    if ((both[i]->flags & 2) || both[i]->recorded == 0) return INVALID_HANDLE; // timing disabled, or never recorded
    if (both[i]->done < both[i]->recorded) return NOT_READY;
    at[i] = both[i]->ns;
  }
  *ms = (float)((double)(at[1] - at[0]) * 1e-6);
  return OK;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
  ENTER(cuEventElapsedTime, Context);
  return elapsed(ms, from, to, "cuEventElapsedTime");
}

EXPORT CUresult cuEventElapsedTime_v2(float *ms, CUevent from, CUevent to) {
  ENTER(cuEventElapsedTime_v2, Context);
  return elapsed(ms, from, to, "cuEventElapsedTime_v2");
}

// wait_captured is a wait inside a capture: it brings the waiting stream into the graph, or back to its origin.
static int wait_captured(Stream *s, const EventRef &e) {
  Capture *c = e->capture;
  if (!c || !sim.captures.count(c)) return s->capture ? capture_spoil(s->capture, CAPTURE_ISOLATION) : INVALID_VALUE;
  if (s->capture && s->capture != c) return capture_spoil(s->capture, CAPTURE_ISOLATION);
  if (!s->capture) {
    s->capture = c;
    s->capture_clock = Clock{};
    c->members.insert(s);
  }
  s->capture_clock.join(e->clock);
  for (auto u = c->unjoined.begin(); u != c->unjoined.end();) {
    bool joined = c->origin->capture_clock.of((*u)->number) >= (*u)->capture_clock.of((*u)->number);
    u = joined ? c->unjoined.erase(u) : std::next(u);
  }
  return OK;
}

EXPORT CUresult cuStreamWaitEvent(CUstream h, CUevent eh, unsigned flags) {
  ENTER(cuStreamWaitEvent, Context);
  if (flags > 1) return INVALID_VALUE;
  Stream *s = stream_of(h, "cuStreamWaitEvent");
  EventRef e = event_of(eh, "cuStreamWaitEvent");
  if (!s || !e) return INVALID_HANDLE;
  if (s->capture || e->capture) return wait_captured(s, e);
  uint64_t target = e->recorded;
  if (target == 0) return OK; // never recorded: nothing to wait for
  auto w = std::make_shared<Work>();
  w->what = "a wait";
  w->run = [e, target](Stream &here) {
    std::unique_lock<std::mutex> hold(e->mu);
    while (e->done < target && !here.stop) e->cv.wait_for(hold, std::chrono::milliseconds(5));
  };
  submit(s, w);
  s->clock.join(e->clock);
  return OK;
}
