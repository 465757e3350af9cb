// NVTX: ranges and marks through its own interface, without CUPTI, so they work before cuInit and without CUDA.
enum { N_MARK = 1, N_PUSH, N_POP, N_START, N_END };
struct attributes {
	u16 version, size;
	u32 category;
	int32_t color_type;
	u32 color;
	int32_t payload_type, reserved;
	u64 payload;
	int32_t message_type;
	const void *message;
};
enum { ASCII = 1, REGISTERED = 3 };
static atomic_ulong range_id = 1;

// emit keeps one event; text, or the number of a name. In a forked child fd is -1.
static u64 emit(u16 op, u64 id, const char *text, u32 name, void *domain) {
	static __thread u32 thread;
	if (op == N_START) id = atomic_fetch_add(&range_id, 1);
	if (atomic_load(&fd) < 0) return id;
	if (!thread) thread = (u32)syscall(SYS_gettid);
	struct nvtx n = {now(CLOCK_REALTIME), id, name ? name : name_id(text), (u32)(uintptr_t)domain, thread, op, 0};
	pthread_mutex_lock(&ranges);
	int room = nvtx_count < RANGES;
	if (room) memcpy(nvtx_room[nvtx_into] + HEAD + nvtx_count++ * sizeof n, &n, sizeof n);
	pthread_mutex_unlock(&ranges);
	if (!room) atomic_fetch_add(&lost_nvtx, 1);
	return id;
}
static u64 emit_with(u16 op, const struct attributes *a, void *domain) {
	if (a && a->message_type == ASCII) return emit(op, 0, a->message, 0, domain);
	if (a && a->message_type == REGISTERED) return emit(op, 0, 0, (u32)(uintptr_t)a->message, domain);
	return emit(op, 0, 0, 0, domain);
}
static void mark_with(const void *a) { emit_with(N_MARK, a, 0); }
static void mark(const char *s) { emit(N_MARK, 0, s, 0, 0); }
static u64 start_with(const void *a) { return emit_with(N_START, a, 0); }
static u64 start(const char *s) { return emit(N_START, 0, s, 0, 0); }
static void range_end(u64 id) { emit(N_END, id, 0, 0, 0); }
static int push_with(const void *a) { return emit_with(N_PUSH, a, 0), 0; }
static int push(const char *s) { return emit(N_PUSH, 0, s, 0, 0), 0; }
static int pop(void) { return emit(N_POP, 0, 0, 0, 0), 0; }
static void domain_mark(void *d, const void *a) { emit_with(N_MARK, a, d); }
static u64 domain_start(void *d, const void *a) { return emit_with(N_START, a, d); }
static void domain_end(void *d, u64 id) { emit(N_END, id, 0, 0, d); }
static int domain_push(void *d, const void *a) { return emit_with(N_PUSH, a, d), 0; }
static int domain_pop(void *d) { return emit(N_POP, 0, 0, 0, d), 0; }
static void *domain_create(const char *s) { return (void *)(uintptr_t)name_id(s); } // a handle is the number of its name
static void *string(void *d, const char *s) { return (void)d, domain_create(s); }

EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(u32)) {
	enum { CALLBACKS = 1, CORE = 1, CORE2 = 5 };
	const struct {
		size_t size;
		int (*functions)(u32, void ****, u32 *);
	} *t = export_table ? export_table(CALLBACKS) : 0;
	void ***core = 0, ***core2 = 0;
	u32 n = 0, n2 = 0;
	if (!ready() || !t || !t->functions(CORE, &core, &n) || !t->functions(CORE2, &core2, &n2)) return 0;
	const struct {
		u32 id;
		void *fn;
	} a[] = {{1, mark_with}, {2, mark}, {4, start_with}, {5, start}, {7, range_end}, {8, push_with}, {9, push}, {11, pop}},
	  b[] = {{1, domain_mark}, {2, domain_start}, {3, domain_end}, {4, domain_push}, {5, domain_pop}, {10, string}, {12, domain_create}};
	for (unsigned i = 0; i < COUNT(a); i++)
		if (a[i].id < n && core[a[i].id]) *core[a[i].id] = a[i].fn;
	for (unsigned i = 0; i < COUNT(b); i++)
		if (b[i].id < n2 && core2[b[i].id]) *core2[b[i].id] = b[i].fn;
	return 1;
}
