// What every part uses: types, the state of the recorder, and its account for gpuprof.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define COUNT(a) (sizeof(a) / sizeof *(a))
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

// OFF: CUPTI is not ours. ARMED: it is, and records nothing until it is asked to.
enum { OFF, ARMED, RECORDING, STOPPING, DONE };
static atomic_int state = OFF;
static atomic_int owner;           // the process that all of this belongs to: a forked child has it from its parent
static atomic_int cuda_ready;      // cuInit has finished
static atomic_int fd = -1;         // the file, -1 none
static char dir[1024];
static int mine(void) { return getpid() == atomic_load(&owner); }

// What DIR/cuda.config sets; the numbers are what it holds where it says nothing.
static struct {
	long flush_ms;  // between two flushes
	long max_mb;    // of one file
	long max_s;     // since the first kernel
	long buffers, buffer_kb;
	long ready_ms;  // after which CUPTI is asked although cuInit was not seen to finish
	long leave_ms;  // that the end of a context waits for its records at most
	long idle;      // 1: record only while DIR/cuda.control says so
	long torch;     // 1: also in a process with PyTorch
	long graphs;    // 1: a graph is one record and not one a node
	long only;      // 1: no libcupti but those that DIR/cuda.config names
} cfg = {100, 512, 120, 64, 1024, 10000, 200, 0, 0, 0, 0};

static atomic_ulong lost_buffers, lost_cupti, lost_write, lost_names, lost_nvtx; // records, or names
static atomic_ulong seen, self_ns;                                              // records, and what taking them cost
static _Atomic u64 first_ns;                                                    // of the clock: when the first kernel was taken, 0 none yet

static u64 now(clockid_t c) {
	struct timespec t;
	clock_gettime(c, &t);
	return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

// pages is zeroed memory beside the program's own allocator; 0 where there is none.
static void *pages(size_t n) {
	void *p = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? 0 : p;
}

// quoted writes a text as JSON wants it into out, which has room for n bytes.
static const char *quoted(char *out, size_t n, const char *s) {
	size_t k = 0;
	for (; *s && k + 2 < n; s++) {
		unsigned char c = (unsigned char)*s;
		if (c < 32 || c > 126) c = '?';
		if (c == '"' || c == '\\') out[k++] = '\\';
		out[k++] = (char)c;
	}
	out[k] = 0;
	return out;
}

// open_in opens a file of the folder.
static int open_in(const char *name, int flags) {
	char path[1200];
	snprintf(path, sizeof path, "%s/%s", dir, name);
	return open(path, flags | O_CLOEXEC, 0600);
}

// tell adds a line of JSON to DIR/cuda.jsonl: one write, so that lines of several processes do not mix.
// The file is opened for each: a program may close descriptors that it does not know.
__attribute__((format(printf, 2, 3))) static void tell(const char *event, const char *fmt, ...) {
	char text[3000], line[3200];
	va_list a;
	va_start(a, fmt);
	vsnprintf(text, sizeof text, fmt, a);
	va_end(a);
	int n = snprintf(line, sizeof line, "{\"event\":\"%s\",\"pid\":%d%s%s}\n", event, (int)getpid(), *text ? "," : "", text);
	int f = *dir ? open_in("cuda.jsonl", O_WRONLY | O_APPEND | O_CREAT) : -1;
	if (f < 0) return;
	if (write(f, line, (size_t)n) < 0) line[0] = 0; // a full disk; the lines that are not there say so
	close(f);
}
static void failed(const char *where, int code, const char *text) {
	char q[1200];
	tell("error", "\"where\":\"%s\",\"code\":%d,\"text\":\"%s\"", where, code, quoted(q, sizeof q, text));
}
