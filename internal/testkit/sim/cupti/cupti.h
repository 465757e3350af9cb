// What the parts of the simulated CUPTI share.
#pragma once

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include <atomic>

#include "../driver/hooks.h"
#include "abi.h"

#define API extern "C" __attribute__((visibility("default"))) int

extern const Abi *abi;
// fault says whether a test asked for one: GPUPROF_SIM_CUPTI holds "abi=12.9;fault=busy,stall" or parts of it.
bool fault(const char *name);
// wrong ends the process: the program broke a rule that a real CUPTI would punish by a crash, a hang or wrong records.
[[noreturn]] void wrong(const char *format, const char *function);

// inside: this thread is in a callback that hands out or takes back a buffer.
extern thread_local bool inside;
extern std::atomic<bool> recorded[64]; // by kind
extern std::atomic<bool> by_number[2][256];
extern std::atomic<bool> initialised;
extern pthread_mutex_t state; // CUPTI's own; held while a buffer is asked for, and while records are counted

// family notes that a function of the first or the second family was called. Both in one process are refused.
void family(int which, const char *function);

// -- buffers.cpp ---------------------------------------------------------------

typedef void (*Request)(uint8_t **, size_t *, size_t *);
typedef void (*Complete)(void *, uint32_t, uint8_t *, size_t, size_t);
typedef void (*Request2)(uint8_t **, size_t *, size_t *, void *);
typedef void (*Complete2)(uint8_t *, size_t, size_t, void *);
void buffers_by(Request, Complete, Request2, Complete2);
// room is where a record of so many bytes goes, null where there is none; the state is held. What is not set is rubbish.
uint8_t *room(int bytes);
int next_record(uint8_t *buffer, size_t valid, uint8_t **record);
size_t take_dropped();
void flush();
int size_of(uint32_t kind);

// -- records.cpp ---------------------------------------------------------------

void start_telling(); // the driver tells of its calls and operations from here on
void put_devices();
