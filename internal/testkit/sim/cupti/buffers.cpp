// Buffers: one is filled, full ones are given back by a thread of CUPTI's own or by whoever flushes.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cupti.h"

static Request request;
static Complete complete;
static Request2 request2;
static Complete2 complete2;

struct Full {
  uint8_t *p;
  size_t size, used;
  Full *next;
};
static Full *head, **tail = &head;
static uint8_t *current;
static size_t current_size, current_used, dropped;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

int size_of(uint32_t kind) {
  switch (kind) {
  case 1:
    return abi->copy;
  case 2:
    return abi->fill;
  case 3:
  case 10:
    return abi->kernel;
  case 4:
  case 5:
    return 40;
  case 8:
    return abi->device;
  case 17:
    return abi->overhead;
  case 22:
    return 96;
  case 51:
    return abi->graph;
  }
  return 0;
}

static void give(uint8_t *p, size_t size, size_t used) {
  inside = true;
  if (complete2) complete2(p, size, used, nullptr);
  else complete(nullptr, 0, p, size, used);
  inside = false;
}

static void *work(void *) {
  for (;;) {
    pthread_mutex_lock(&state);
    while (!head) pthread_cond_wait(&more, &state);
    Full *f = head;
    if (!(head = f->next)) tail = &head;
    pthread_mutex_unlock(&state);
    if (fault("stall")) {
      timespec t{0, 500000000};
      nanosleep(&t, nullptr);
    }
    give(f->p, f->size, f->used);
    free(f);
  }
  return nullptr;
}

void buffers_by(Request r, Complete c, Request2 r2, Complete2 c2) {
  static bool started;
  pthread_mutex_lock(&state);
  request = r, complete = c, request2 = r2, complete2 = c2;
  bool start = !started;
  started = true;
  pthread_mutex_unlock(&state);
  pthread_t t;
  if (start && !pthread_create(&t, nullptr, work, nullptr)) pthread_detach(t);
}

uint8_t *room(int bytes) {
  if (current && current_used + (size_t)bytes > current_size) {
    Full *f = (Full *)malloc(sizeof *f);
    *f = {current, current_size, current_used, nullptr};
    *tail = f, tail = &f->next;
    current = nullptr;
    pthread_cond_signal(&more);
  }
  if (!current) {
    size_t most = 0;
    inside = true;
    if (request2) request2(&current, &current_size, &most, nullptr);
    else if (request) request(&current, &current_size, &most);
    inside = false;
    current_used = 0;
    if (!current && abi->version < 27) wrong("%s: a refused buffer can crash CUPTI before 12.9", "the request for a buffer");
    if (!current || current_size < (size_t)bytes) {
      dropped++;
      return nullptr;
    }
  }
  uint8_t *p = current + current_used;
  current_used += (size_t)bytes;
  memset(p, 0xEE, (size_t)bytes);
  return p;
}

int next_record(uint8_t *buffer, size_t valid, uint8_t **record) {
  uint32_t kind;
  if (*record) memcpy(&kind, *record, 4);
  uint8_t *p = *record ? *record + size_of(kind) : buffer;
  if (p >= buffer + valid) return 12;
  memcpy(&kind, p, 4);
  if (!size_of(kind)) return 21;
  *record = p;
  return 0;
}

size_t take_dropped() {
  pthread_mutex_lock(&state);
  size_t n = dropped + (fault("drops") ? 7 : 0);
  dropped = 0;
  pthread_mutex_unlock(&state);
  return n;
}

void flush() {
  pthread_mutex_lock(&state);
  uint8_t *p = current;
  size_t size = current_size, used = current_used;
  current = nullptr;
  Full *queue = head;
  head = nullptr, tail = &head;
  pthread_mutex_unlock(&state);
  for (Full *f; (f = queue);) {
    queue = f->next;
    give(f->p, f->size, f->used);
    free(f);
  }
  if (p) give(p, size, used);
}
