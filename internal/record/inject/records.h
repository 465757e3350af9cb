// CUPTI's records, read at offsets that no release moved, and the calls worth keeping.
static u16 r16(const u8 *p, int at) {
	u16 v;
	memcpy(&v, p + at, 2);
	return v;
}
static u32 r32(const u8 *p, int at) {
	u32 v;
	memcpy(&v, p + at, 4);
	return v;
}
static u64 r64(const u8 *p, int at) {
	u64 v;
	memcpy(&v, p + at, 8);
	return v;
}
static u16 clip(u32 v) { return v > 65535 ? 65535 : (u16)v; }

// Calls by domain and number: their names, 0 for those that are dropped. Filled before anything is recorded.
enum { CALLS = 2048 };
static const char *call_name[3][CALLS];
static void learn_calls(void) {
	static const char *const keep[] = {"Launch", "Memcpy", "Memset", "Synchronize", "Malloc", "MemAlloc", "MemCreate", "MemRelease", "HostAlloc", "HostRegister", "Free",
		"Capture", "GraphInstantiate", "ModuleLoad", "LibraryLoad", "LinkComplete", "EventRecord", "StreamWaitEvent", "DeviceReset"};
	static const char *const drop[] = {"IsCapturing", "GetCapture", "LaunchConfig", "FuncSet", "Attribute"};
	for (u32 d = DOM_DRIVER; d <= DOM_RUNTIME; d++)
		for (u32 i = 1, gap = 0; i < CALLS && gap < 64; i++) {
			const char *s = 0;
			int kept = 0;
			call_name[d][i] = 0;
			if (C.name(d, i, &s) != OK || !s) {
				gap++;
				continue;
			}
			gap = 0;
			for (unsigned k = 0; k < COUNT(keep) && !kept; k++) kept = strstr(s, keep[k]) != 0;
			for (unsigned k = 0; k < COUNT(drop) && kept; k++) kept = strstr(s, drop[k]) == 0;
			if (kept) call_name[d][i] = s;
		}
}

// thread_seen names a thread the first time one of its calls is taken.
static void thread_seen(u32 id) {
	static u32 known[1024];
	u32 *k = &known[(id * 2654435761u) >> 22];
	if (*k == id) return;
	*k = id;
	char path[64], name[32] = "";
	snprintf(path, sizeof path, "/proc/self/task/%u/comm", id);
	int f = open(path, O_RDONLY | O_CLOEXEC);
	if (f < 0) return;
	ssize_t n = read(f, name, sizeof name - 1);
	close(f);
	if (n < 2) return;
	name[n - 1] = 0;
	add(&threads, &(struct thread){id, name_in(name)});
}

static void take_kernel(const u8 *p) {
	struct kernel k = {.start = r64(p, 16), .end = r64(p, 24), .corr = r32(p, 92), .name = name_in((const char *)(uintptr_t)r64(p, 104)), .stream = r32(p, 48), .context = r32(p, 44),
		.gx = r32(p, 52), .gy = r32(p, 56), .gz = r32(p, 60), .bx = clip(r32(p, 64)), .by = clip(r32(p, 68)), .bz = clip(r32(p, 72)), .registers = r16(p, 6), .shared = r32(p, 76),
		.dynamic = r32(p, 80), .device = clip(r32(p, 40)), .flags = p[136], .graph = r32(p, 156), .local = r32(p, 84), .node = r64(p, 144)};
	add(&kernels, &k);
	if (!atomic_load_explicit(&first_ns, memory_order_relaxed)) atomic_store(&first_ns, now(CLOCK_MONOTONIC));
}
static void take_copy(const u8 *p) {
	struct copy c = {r64(p, 16), r64(p, 24), r64(p, 8), r32(p, 44), r32(p, 40), r32(p, 36), clip(r32(p, 32)), clip(r32(p, 32)), p[4], p[5], p[6], p[7], r32(p, 72), r64(p, 64)};
	add(&copies, &c);
}
static void take_copy_between(const u8 *p) {
	struct copy c = {r64(p, 16), r64(p, 24), r64(p, 8), r32(p, 60), r32(p, 40), r32(p, 36), clip(r32(p, 44)), clip(r32(p, 52)), p[4], p[5], p[6], p[7], r32(p, 80), r64(p, 72)};
	add(&copies, &c);
}
static void take_fill(const u8 *p) {
	struct fill f = {r64(p, 16), r64(p, 24), r64(p, 8), r32(p, 44), r32(p, 40), r32(p, 36), clip(r32(p, 32)), r16(p, 50), r32(p, 4), r32(p, 72), r64(p, 64)};
	add(&fills, &f);
}
static void take_call(const u8 *p, u32 domain) {
	u32 id = r32(p, 4);
	if (id >= CALLS || !call_name[domain][id]) return;
	struct call c = {r64(p, 8), r64(p, 16), r32(p, 32), r32(p, 28), name_in(call_name[domain][id]), (int32_t)r32(p, 36)};
	thread_seen(c.thread);
	add(&calls, &c);
}
// Devices are told of once; a later file of the process has them, too.
static struct device devices[64];
static u32 devices_seen;
static void take_device(const u8 *p) {
	const char *name = (const char *)(uintptr_t)r64(p, 136);
	struct device d = {r32(p, 112), name ? name_in(name) : 0, r32(p, 44), r32(p, 104), r32(p, 108), p[145], r64(p, 16), r64(p, 8), {0}};
	memcpy(d.uuid, p + 120, 16);
	if (devices_seen < COUNT(devices)) devices[devices_seen++] = d;
	put_names();
	put_one(T_DEVICE, &d, sizeof d);
}
static void repeat_devices(void) { // `lines` held
	for (u32 i = 0; i < devices_seen; i++) put_one(T_DEVICE, &devices[i], sizeof *devices);
}

// take keeps one record; `lines` held.
static void take(const u8 *p) {
	switch (r32(p, 0)) {
	case K_KERNEL:
	case K_CONCURRENT: return take_kernel(p);
	case K_MEMCPY: return take_copy(p);
	case K_MEMCPY2: return take_copy_between(p);
	case K_MEMSET: return take_fill(p);
	case K_DRIVER: return take_call(p, DOM_DRIVER);
	case K_RUNTIME: return take_call(p, DOM_RUNTIME);
	case K_DEVICE: return take_device(p);
	case K_OVERHEAD: return add(&overheads, &(struct overhead){r64(p, 24), r64(p, 32), r32(p, 4), r32(p, 16)});
	case K_GRAPH:
		add(&graphs, &(struct graph){r64(p, 8), r64(p, 16), r32(p, 4), r32(p, 36), r32(p, 32), r32(p, 28), clip(r32(p, 24)), 0, 0});
		if (!atomic_load_explicit(&first_ns, memory_order_relaxed)) atomic_store(&first_ns, now(CLOCK_MONOTONIC));
	}
}
