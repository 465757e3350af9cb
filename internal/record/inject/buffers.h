// CUPTI's buffers: a pool, taken by atomic flags, since CUPTI asks for one while it holds its own locks.
enum { MOST_BUFFERS = 256 };
static _Atomic(u8 *) pool[MOST_BUFFERS];
static atomic_uchar taken[MOST_BUFFERS];
static atomic_int outstanding; // buffers that CUPTI has

static void requested(u8 **buf, size_t *size, size_t *most) {
	*most = 0, *size = (size_t)cfg.buffer_kb << 10, *buf = 0;
	int s = atomic_load(&state);
	if (mine() && s != DONE && s != OFF)
		for (int i = 0; i < cfg.buffers && !*buf; i++)
			if (!atomic_exchange(&taken[i], 1)) {
				u8 *p = atomic_load(&pool[i]);
				if (!p) atomic_store(&pool[i], p = pages(*size));
				if ((*buf = p)) break;
				atomic_store(&taken[i], 0);
			}
	if (!*buf) { // none is left, and CUPTI may crash when it is given none: this one is thrown away
		atomic_fetch_add(&lost_buffers, 1);
		if (version < NULL_BUFFER_FROM) *buf = pages(*size);
		if (!*buf) {
			*size = 0;
			return;
		}
	}
	atomic_fetch_add(&outstanding, 1);
}

static void walk(u8 *buf, size_t valid) {
	u8 *some[64], *record = 0;
	for (int rc = OK; rc == OK;) {
		unsigned n = 0;
		while (n < COUNT(some) && (rc = scoped ? C.next2(sub, buf, valid, &record) : C.next(buf, valid, &record)) == OK) some[n++] = record; // no lock of ours is held here
		if (!n) break;
		pthread_mutex_lock(&lines);
		for (unsigned k = 0; k < n; k++) take(some[k]);
		pthread_mutex_unlock(&lines);
		atomic_fetch_add(&seen, n);
	}
}

static void completed(void *context, u32 stream, u8 *buf, size_t size, size_t valid) {
	(void)context, (void)stream;
	if (!buf || !mine()) return;
	u64 began = now(CLOCK_MONOTONIC);
	int i = 0;
	while (i < cfg.buffers && atomic_load(&pool[i]) != buf) i++;
	if (i == cfg.buffers) munmap(buf, size);
	else {
		if (valid && atomic_load(&fd) >= 0) walk(buf, valid);
		else if (valid) atomic_fetch_add(&lost_buffers, 1); // it came after the end
		atomic_store(&taken[i], 0);
	}
	atomic_fetch_sub(&outstanding, 1);
	atomic_fetch_add(&self_ns, now(CLOCK_MONOTONIC) - began);
}
static void requested2(u8 **buf, size_t *size, size_t *most, void *info) {
	(void)info;
	requested(buf, size, most);
}
static void completed2(u8 *buf, size_t size, size_t valid, void *info) {
	(void)info;
	completed(0, 0, buf, size, valid);
}
