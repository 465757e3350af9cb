// Stands between a program with the recorder and the system, by LD_PRELOAD: a disk that is full once TEST_ROOM bytes
// of recordings are there, and a count of what the program's own thread waits in.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long waits; // calls of the main thread that may take long

static void count(void) {
	if (syscall(SYS_gettid) == getpid()) atomic_fetch_add(&waits, 1);
}

// test_mark is called by the program before and after its steps: the second time it says how often it waited meanwhile.
void test_mark(void) {
	static long before = -1;
	if (before < 0) before = atomic_load(&waits);
	else fprintf(stderr, "waited %ld times\n", atomic_load(&waits) - before);
}

int usleep(useconds_t us) {
	static int (*real)(useconds_t);
	if (!real) real = (int (*)(useconds_t))dlsym(RTLD_NEXT, "usleep");
	count();
	return real(us);
}

ssize_t write(int fd, const void *from, size_t n) {
	static ssize_t (*real)(int, const void *, size_t);
	static atomic_long written;
	char link[64], path[4096];
	const char *room = getenv("TEST_ROOM");
	if (!real) real = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, sizeof path - 1);
	path[length > 0 ? length : 0] = 0;
	if (strstr(path, ".gpt")) {
		count();
		if (room && atomic_fetch_add(&written, (long)n) + (long)n > atol(room)) {
			errno = ENOSPC;
			return -1;
		}
	}
	return real(fd, from, n);
}
