// gpuprof's CUDA recorder. The CUDA driver loads it in cuInit (CUDA_INJECTION64_PATH), NVTX at
// its first call (NVTX_INJECTION64_PATH).
//
// It only records: what to record and when to stop is decided by gpuprof, which reads the file
// while it grows. Rules that keep it out of the program's way:
//   1. No function of CUPTI is called while a lock of ours is held that a callback takes, and no lock is
//      taken in the callback that hands out buffers: CUPTI calls it under its own.
//   2. The file is written with write(2), never mapped: a full disk is an error code and not a SIGBUS.
//      A chunk is one write, so SIGKILL tears the last at most.
//   3. No thread of the program waits for the disk. At the end of a context and of the process it waits
//      for the last records, a bounded time.
//   4. In a forked child nothing of the parent's is touched: no write, no call of CUPTI, no lock.
//   5. Whatever fails, InitializeInjection returns 1 and the program runs on.
//
// All parts are one translation unit; nothing but the two entry points is visible outside.
#include "base.h"
#include "file.h"
#include "cupti.h"
#include "records.h"
#include "buffers.h"
static int open_file(void);
#include "flusher.h"
static int ready(void);
#include "nvtx.h"

// Libraries that say what a program is made with.
static const char *const telling[] = {"libtorch", "libkineto", "xla", "jax", "libtensorflow", "cupy", "libjulia", "libnvinfer", "libcudart", "libcublas", "libcudnn", "libnccl", "libcupti", "libcuda.so"};
static char process_text[6000]; // what T_PROCESS says
static char found_cupti[1024];  // mapped in the process already
static char beside[1024];       // the folder of the program's own CUDA runtime

__attribute__((format(printf, 1, 2))) static void describe(const char *fmt, ...) {
	size_t n = strlen(process_text);
	va_list a;
	va_start(a, fmt);
	vsnprintf(process_text + n, sizeof process_text - n, fmt, a);
	va_end(a);
}
static void describe_process(void) {
	char exe[512] = "";
	const char *ranks[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}, *worlds[] = {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"};
	if (readlink("/proc/self/exe", exe, sizeof exe - 1) < 0) *exe = 0;
	*process_text = 0;
	describe("pid=%d\nppid=%d\nexe=%s\n", (int)getpid(), (int)getppid(), exe);
	for (unsigned i = 0; i < COUNT(ranks); i++) {
		const char *rank = getenv(ranks[i]), *world = getenv(worlds[i]);
		if (!rank) continue;
		describe("rank=%.20s\nworld=%.20s\n", rank, world ? world : "");
		break;
	}
	if (getenv("CUDA_VISIBLE_DEVICES")) describe("visible=%.1000s\n", getenv("CUDA_VISIBLE_DEVICES"));
}

static void settings(void) {
	char line[1200];
	int f = open_in("cuda.config", O_RDONLY);
	FILE *in = f >= 0 ? fdopen(f, "r") : 0;
	const struct {
		const char *name;
		long *value;
	} numbers[] = {{"flush_ms=", &cfg.flush_ms}, {"max_mb=", &cfg.max_mb}, {"max_s=", &cfg.max_s}, {"buffers=", &cfg.buffers}, {"buffer_kb=", &cfg.buffer_kb}, {"ready_ms=", &cfg.ready_ms},
		{"leave_ms=", &cfg.leave_ms}, {"idle=", &cfg.idle}, {"torch=", &cfg.torch}, {"graphs=", &cfg.graphs}, {"only=", &cfg.only}};
	while (in && fgets(line, sizeof line, in))
		for (unsigned i = 0; i < COUNT(numbers); i++)
			if (!strncmp(line, numbers[i].name, strlen(numbers[i].name)) && atol(line + strlen(numbers[i].name)) > 0) *numbers[i].value = atol(line + strlen(numbers[i].name));
	if (in) fclose(in);
	if (cfg.buffers > MOST_BUFFERS) cfg.buffers = MOST_BUFFERS;
	if (cfg.buffer_kb > 1 << 16) cfg.buffer_kb = 1 << 16;
	struct rlimit r;
	file_limit = getrlimit(RLIMIT_FSIZE, &r) || r.rlim_cur == RLIM_INFINITY ? ~(u64)0 : r.rlim_cur;
}

// open_file opens the next file of the process: the same process comes again after exec, and numbers of processes do.
// A name is not used again, though gpuprof has taken its file away.
static int open_file(void) {
	static int next;
	char name[64];
	int f = -1;
	for (int i = next, last = next + 1000; f < 0 && i < last; i++) {
		next = i + 1;
		snprintf(name, sizeof name, i ? "cuda-%d-%d.gpt" : "cuda-%d.gpt", (int)getpid(), i);
		f = open_in(name, O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
		if (f < 0 && errno != EEXIST) break;
	}
	struct stat there;
	if (f < 0 || fstat(f, &there) || file_limit < 1 << 20 || write(f, "gpuprof\x1a\1\0\0\0\4\3\2\1", 16) != 16) {
		failed("open", f < 0 ? errno : EFBIG, f < 0 ? strerror(errno) : "no room for a file");
		if (f >= 0) close(f);
		return 0;
	}
	pthread_mutex_lock(&lines);
	file_dev = there.st_dev, file_ino = there.st_ino;
	atomic_store(&written, 16);
	atomic_store(&fd, f);
	put_one(T_SCHEMA, schema, sizeof schema - 1);
	put_one(T_PROCESS, process_text, (u32)strlen(process_text));
	repeat_names();
	repeat_devices();
	pthread_mutex_unlock(&lines);
	tell("file", "\"file\":\"%s\"", name);
	return 1;
}

// ready finds the folder and opens the file, once a process: both interfaces may come first.
static int ready(void) {
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	static int registered, good; // what is registered survives fork
	pthread_mutex_lock(&once);
	if (atomic_load(&owner) != getpid()) {
		atomic_store(&owner, getpid());
		const char *d = getenv("GPUPROF_CUDA");
		good = 0;
		if (d && *d == '/' && strlen(d) < sizeof dir) {
			strcpy(dir, d);
			settings();
			describe_process();
			good = cfg.idle || open_file();
			if (good && !registered++) {
				pthread_atfork(0, 0, in_child);
				atexit(at_exit);
			}
		}
	}
	pthread_mutex_unlock(&once);
	return good;
}

struct there {
	int torch, driver;
};
static int look(struct dl_phdr_info *i, size_t n, void *to) {
	struct there *t = to;
	(void)n;
	const char *path = i->dlpi_name ? i->dlpi_name : "", *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	if (strstr(name, "libtorch_cuda") || strstr(name, "libkineto")) t->torch = 1;
	if (strstr(name, "libcuda.so")) t->driver = 1;
	if (strstr(name, "libcupti.so")) snprintf(found_cupti, sizeof found_cupti, "%s", path);
	if (strstr(name, "libcudart.so")) snprintf(beside, sizeof beside, "%.*s", (int)(name - path), path);
	for (unsigned k = 0; k < COUNT(telling); k++)
		if (strstr(name, telling[k])) {
			describe("library=%.200s\n", name);
			break;
		}
	return 0;
}

// bind finds the functions in a libcupti; 0 where one is missing that is needed.
static int bind_functions(void *h, const char *path) {
	int lacks = 0;
	for (unsigned i = 0; i < COUNT(wanted); i++) {
		void *p = dlsym(h, wanted[i].name);
		memcpy(wanted[i].fn, &p, sizeof p);
		if (!p && wanted[i].need == SCOPED) lacks = 1;
		if (!p && wanted[i].need == MUST) {
			char q[1200];
			tell("error", "\"where\":\"symbol\",\"text\":\"%s\",\"cupti\":\"%s\"", wanted[i].name, quoted(q, sizeof q, path));
			return 0;
		}
	}
	int rc = C.version(&version);
	if (rc != OK) return failed("version", rc, path), 0;
	scoped = version >= V2_FROM && !lacks && C.subscribe2;
	return 1;
}

// subscribe makes the process's CUPTI ours; its result is CUPTI's.
static int subscribe(const char *path) {
	char other[128] = "", q[2][1200];
	struct subscriber_params p = {version >= V2_LARGE_PARAMS ? 40 : 32, "gpuprof", other, sizeof other, 1, {0}};
	int rc = scoped ? C.subscribe2(&sub, callback, 0, &p) : C.subscribe(&sub, callback, 0);
	if (!scoped && rc == E_SUBSCRIBERS && C.subscribe2) { // this fails, too, and says who is there
		p.allow = 0;
		C.subscribe2(&sub, callback, 0, &p);
	}
	if (rc != OK) tell("error", "\"where\":\"subscribe\",\"code\":%d,\"other\":\"%s\",\"cupti\":\"%s\",\"version\":%u", rc, quoted(q[0], sizeof q[0], other), quoted(q[1], sizeof q[1], path), version);
	return rc;
}

// use takes one libcupti; 1 it is ours, 0 another may do, -1 none will.
static int use(const char *path) {
	void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) return 0;
	if (!bind_functions(h, path)) return 0;
	int rc = subscribe(path);
	if (rc == E_NOT_INITIALIZED || rc == E_NOT_SUPPORTED) return 0; // made for another driver
	if (rc != OK) return -1;
	int rc2 = OK, system_ids = SYSTEM_THREAD_ID;
	if (C.callback) {
		told_of_init = C.callback(1, sub, DOM_RESOURCE, CB_CU_INIT_FINISHED) == OK;
		C.callback(1, sub, DOM_RESOURCE, CB_CONTEXT_ENDS);
	}
	if (scoped) C.attribute2(sub, ATTR_THREAD_ID, &(size_t){sizeof system_ids}, &system_ids);
	else if (C.thread_ids) C.thread_ids(system_ids);
	learn_calls();
	rc2 = scoped ? C.buffers2(sub, requested2, completed2) : C.buffers(requested, completed);
	if (rc2 != OK) {
		failed("buffers", rc2, path);
		C.unsubscribe(sub);
		return -1;
	}
	describe("cupti=%s\ncupti_version=%u\n", path, version);
	return 1;
}

// use_any tries the names of a libcupti, in a folder or where the loader looks.
static int use_any(const char *folder) {
	static const char *const known[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so.11.7", "libcupti.so"};
	int got = 0;
	for (unsigned i = 0; !got && i < COUNT(known); i++) {
		char path[1400];
		snprintf(path, sizeof path, "%s%s", folder, known[i]);
		if (!*folder || !access(path, R_OK)) got = use(path);
	}
	return got;
}

// use_beside tries the folders that have a libcupti where the program has its CUDA runtime: a toolkit, or Python packages.
static int use_beside(void) {
	static const char *const from[] = {"", "../extras/CUPTI/lib64/", "../../../extras/CUPTI/lib64/", "../../cuda_cupti/lib/"};
	int got = 0;
	for (unsigned i = 0; *beside && !got && i < COUNT(from); i++) {
		char folder[1200];
		snprintf(folder, sizeof folder, "%s%s", beside, from[i]);
		got = use_any(folder);
	}
	return got;
}

// attach looks for a CUPTI: the one that the process has, or that lies beside its CUDA runtime, those that DIR/cuda.config
// lists, and those that the loader knows.
static int attach(void) {
	struct there t = {0, 0};
	char line[1200], named[1200] = "";
	int got = 0;
	*found_cupti = *beside = 0;
	dl_iterate_phdr(look, &t);
	if (!t.driver) return tell("aside", "\"reason\":\"driver\""), 0; // without one CUPTI 13.2 recurses until the process dies
	if (t.torch && !cfg.torch) return tell("aside", "\"reason\":\"torch\""), 0;
	// Where the process has one, a second is not tried: two would take each other's work.
	got = *found_cupti ? use(found_cupti) : cfg.only ? 0 : use_beside();
	int f = open_in("cuda.config", O_RDONLY);
	FILE *in = f >= 0 ? fdopen(f, "r") : 0;
	while (!*found_cupti && in && !got && fgets(line, sizeof line, in)) {
		line[strcspn(line, "\n")] = 0;
		if (strncmp(line, "cupti=", 6)) continue;
		snprintf(named, sizeof named, "%s", line + 6);
		got = use(named);
	}
	if (in) fclose(in);
	if (!*found_cupti && !got && !cfg.only) got = use_any("");
	if (!got) tell("error", "\"where\":\"cupti\",\"text\":\"no libcupti works here\"");
	return got == 1;
}

EXPORT int InitializeInjection(void) {
	static atomic_int called;
	if (!ready() || atomic_exchange(&called, (int)getpid()) == (int)getpid() || !attach()) return 1;
	atexit(at_exit); // before CUPTI's own handlers, which attach has registered: its functions crash behind them
	int waits = cfg.idle && (wanted_now() != 'r' || !open_file());
	pthread_mutex_lock(&lines);
	put_one(T_PROCESS, process_text, (u32)strlen(process_text));
	pthread_mutex_unlock(&lines);
	if (waits) atomic_store(&state, ARMED);
	else begin();
	pthread_t t;
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); // the program's signals are its own threads' business
	int rc = pthread_create(&t, 0, flusher, 0);
	pthread_sigmask(SIG_SETMASK, &old, 0);
	if (!rc) pthread_detach(t);
	else failed("thread", rc, strerror(rc));
	tell(cfg.idle ? "armed" : "recording", "\"cupti\":%u", version);
	return 1;
}
