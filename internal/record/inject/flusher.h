// The thread that flushes, and the ends: of a window, of a context, of the process, of a parent in its child.
static pthread_mutex_t steer = PTHREAD_MUTEX_INITIALIZER; // our calls that steer CUPTI; never held in a callback
static atomic_uint wake, served;                          // flushes that were asked for at once, and those that are done
static int told_of_init;                                  // CUPTI says when cuInit has finished

// From 12.6 on only the kept calls are recorded at all, without their kinds, which would bring every call.
static int by_call(void) { return scoped || (C.driver && C.runtime); }
static void switch_calls(u8 on) {
	for (u32 d = DOM_DRIVER; d <= DOM_RUNTIME; d++)
		for (u32 i = 1; i < CALLS; i++) {
			if (!call_name[d][i]) continue;
			if (scoped) (d == DOM_DRIVER ? C.driver2 : C.runtime2)(sub, i, on);
			else (d == DOM_DRIVER ? C.driver : C.runtime)(i, on);
		}
}
static void switch_kinds(int on) {
	const int kinds[] = {K_DEVICE, K_CONCURRENT, K_MEMCPY, K_MEMCPY2, K_MEMSET, K_OVERHEAD, K_GRAPH, K_RUNTIME, K_DRIVER};
	if (by_call()) switch_calls((u8)on);
	for (unsigned i = 0; i < COUNT(kinds); i++) {
		if ((kinds[i] == K_GRAPH && !cfg.graphs) || ((kinds[i] == K_RUNTIME || kinds[i] == K_DRIVER) && by_call())) continue;
		int rc = on ? (scoped ? C.enable2(sub, kinds[i], 0) : C.enable(kinds[i])) : (scoped ? C.disable2(sub, kinds[i], 0) : C.disable(kinds[i]));
		if (on && rc != OK) tell("refused", "\"kind\":%d,\"code\":%d", kinds[i], rc);
	}
}

// put_clock writes what three clocks say at one instant: the best of some readings.
static void put_clock(void) {
	struct clock c = {.gap = ~0u};
	for (int i = 0; i < 16; i++) {
		u64 before = now(CLOCK_MONOTONIC), t = 0;
		if ((scoped ? C.timestamp2(sub, &t) : C.timestamp(&t)) != OK) return;
		u64 real = now(CLOCK_REALTIME), after = now(CLOCK_MONOTONIC);
		if (after - before < c.gap) c = (struct clock){t, real, before + (after - before) / 2, (u32)(after - before), 0};
	}
	pthread_mutex_lock(&lines);
	put_one(T_CLOCK, &c, sizeof c);
	pthread_mutex_unlock(&lines);
}
static void put_lost(void) {
	size_t n = 0;
	static struct lost last;
	if ((scoped ? C.dropped2(sub, 0, 0, &n) : C.dropped ? C.dropped(0, 0, &n) : -1) == OK) atomic_fetch_add(&lost_cupti, n);
	struct lost l = {atomic_load(&lost_cupti), atomic_load(&lost_buffers), atomic_load(&lost_write), atomic_load(&lost_names), atomic_load(&lost_nvtx)};
	if (!memcmp(&l, &last, sizeof l)) return;
	last = l;
	pthread_mutex_lock(&lines);
	put_one(T_LOST, &l, sizeof l);
	pthread_mutex_unlock(&lines);
}
static void put_end(void) {
	drain_all();
	pthread_mutex_lock(&lines);
	put_one(T_END, &(struct end){atomic_load(&seen), atomic_load(&self_ns), now(CLOCK_REALTIME)}, sizeof(struct end));
	int f = atomic_exchange(&fd, -1);
	if (f >= 0) close(f);
	pthread_mutex_unlock(&lines);
}

// begin starts a recording in the file that is open. steer held, or no thread yet.
static void begin(void) {
	put_clock();
	atomic_store(&first_ns, 0);
	atomic_store(&state, RECORDING);
	switch_kinds(1);
}

// settle waits until CUPTI has given its buffers back, at most so long.
static void settle(int ms) {
	for (; ms > 0 && atomic_load(&outstanding) > 0; ms -= 5) usleep(5000);
}

// end ends a recording; then is DONE, or ARMED for another. steer held.
static void end(const char *why, int then) {
	int was = atomic_exchange(&state, STOPPING);
	if (was == DONE) {
		atomic_store(&state, DONE);
		return;
	}
	if (was != ARMED) {
		switch_kinds(0);
		int may = atomic_load(&cuda_ready) || !told_of_init;
		for (int i = 0; may && i < 20 && atomic_load(&outstanding) > 0; i++) { // what still runs on the device ends first, a while
			C.flush(0);
			settle(5);
		}
		if (may) {
			C.flush(1);
			settle(200);
		}
		put_clock();
		put_lost();
		put_end();
		u64 bytes = atomic_load(&written);
		tell("end", "\"why\":\"%s\",\"records\":%lu,\"bytes\":%llu,\"own_ns\":%lu,\"lost\":[%lu,%lu,%lu,%lu,%lu]", why, atomic_load(&seen), (unsigned long long)bytes, atomic_load(&self_ns),
			atomic_load(&lost_cupti), atomic_load(&lost_buffers), atomic_load(&lost_write), atomic_load(&lost_names), atomic_load(&lost_nvtx));
	}
	atomic_store(&state, then);
	if (then == DONE) C.unsubscribe(sub);
}

// wanted_now is the first byte of DIR/cuda.control: s ends the recording for good, r begins a window, i ends one; 0 none.
static char wanted_now(void) {
	char c = 0;
	int f = open_in("cuda.control", O_RDONLY);
	if (f < 0) return 0;
	if (read(f, &c, 1) != 1) c = 0;
	close(f);
	return c;
}

static void tick(unsigned n) { // steer held
	int s = atomic_load(&state);
	char c = s == DONE ? 0 : wanted_now();
	u64 first = atomic_load(&first_ns), age = first ? (now(CLOCK_MONOTONIC) - first) / 1000000000u : 0;
	if (s == STOPPING) end("write", DONE);
	else if (c == 's' && (s == RECORDING || s == ARMED)) end("asked", DONE);
	else if (s == ARMED && c == 'r') {
		if (open_file()) begin();
	} else if (s == RECORDING && cfg.idle && c == 'i') end("asked", ARMED);
	else if (s == RECORDING && (atomic_load(&written) >> 20 >= (u64)cfg.max_mb || age >= (u64)cfg.max_s)) end("limit", cfg.idle ? ARMED : DONE);
	else if (s == RECORDING) {
		C.flush(0); // gives partly filled buffers, too; cuptiActivityFlushPeriod gives full ones only
		if (n % 10 == 0) put_clock();
		put_lost();
		drain_all();
	}
}

static void at_exit(void);

static void *flusher(void *arg) {
	(void)arg;
	prctl(PR_SET_NAME, "gpuprof");
	u64 began = now(CLOCK_MONOTONIC);
	for (unsigned n = 0; atomic_load(&state) != DONE; n++) {
		unsigned asked = atomic_load(&wake);
		struct timespec t = {cfg.flush_ms / 1000, cfg.flush_ms % 1000 * 1000000};
		if (asked == atomic_load(&served)) syscall(SYS_futex, &wake, FUTEX_WAIT_PRIVATE, asked, &t, 0, 0);
		asked = atomic_load(&wake);
		if (!atomic_load(&cuda_ready) && (now(CLOCK_MONOTONIC) - began) / 1000000 < (u64)cfg.ready_ms) continue; // cuInit may hold the driver's lock
		atomic_store(&cuda_ready, 1);
		static atomic_int again;
		if (!atomic_exchange(&again, 1)) atexit(at_exit); // and before what the driver and CUPTI registered in cuInit
		pthread_mutex_lock(&steer);
		tick(n);
		pthread_mutex_unlock(&steer);
		atomic_store(&served, asked);
	}
	atomic_store(&served, ~0u);
	return 0;
}

// callback is called by CUPTI in a thread of the program: cuInit is over, or a context ends.
static void callback(void *user, u32 domain, u32 id, const void *data) {
	(void)user, (void)data;
	if (domain != DOM_RESOURCE || !mine()) return;
	if (id == CB_CU_INIT_FINISHED) atomic_store(&cuda_ready, 1);
	if (id != CB_CONTEXT_ENDS || atomic_load(&state) != RECORDING) return;
	// A program that leaves by _exit, as those written in Go do, gives no other chance. The end of a context takes
	// the driver longer than this; where CUPTI needs what the driver holds, the wait ends by itself.
	unsigned asked = atomic_fetch_add(&wake, 1) + 1;
	syscall(SYS_futex, &wake, FUTEX_WAKE_PRIVATE, 1, 0, 0, 0);
	u64 until = now(CLOCK_MONOTONIC) + (u64)cfg.leave_ms * 1000000;
	while ((int)(atomic_load(&served) - asked) < 0 && now(CLOCK_MONOTONIC) < until) usleep(200);
}

// at_exit is registered up to three times; the last that was is the first to be called, and the only one that acts.
static void at_exit(void) {
	if (!mine()) return;
	if (atomic_load(&state) == OFF) { // NVTX alone
		if (atomic_load(&fd) >= 0) put_end();
		return;
	}
	struct timespec t;
	clock_gettime(CLOCK_REALTIME, &t);
	t.tv_sec += 2;
	if (pthread_mutex_timedlock(&steer, &t)) return; // the thread hangs in CUPTI: what is written is there
	end("exit", DONE);
	pthread_mutex_unlock(&steer);
}

// in_child is called in a forked child: what was collected is the parent's, which has the file.
static void in_child(void) {
	int f = atomic_exchange(&fd, -1);
	if (f >= 0) close(f);
	atomic_store(&state, OFF);
	atomic_store(&cuda_ready, 0);
	for (unsigned i = 0; i < COUNT(batches); i++) batches[i]->n = 0;
	name_bytes = name_count = nvtx_count = 0;
	devices_seen = 0;
	pthread_mutex_t *locks[] = {&lines, &texts, &ranges, &steer}; // a thread that is not here may have held them
	for (unsigned i = 0; i < COUNT(locks); i++) pthread_mutex_init(locks[i], 0);
}
