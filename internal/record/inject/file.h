// The file: chunks, each written at once, so that a killed process tears its last one at most.
//
// Locks. `lines` guards the file and what is collected for it, `texts` the names, `ranges` the records of NVTX.
// The latter two are taken inside `lines` or alone. No function of CUPTI is called with any of them held.
static pthread_mutex_t lines = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t texts = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t ranges = PTHREAD_MUTEX_INITIALIZER;

struct chunk {
	u32 magic;
	u16 type, record;
	u32 count, bytes;
	u64 time;
};
enum { T_SCHEMA = 1, T_PROCESS, T_NAMES, T_CLOCK, T_KERNEL, T_COPY, T_FILL, T_CALL, T_NVTX, T_DEVICE, T_THREAD, T_LOST, T_OVERHEAD, T_END, T_GRAPH };
enum { MAGIC = 0x68435047, HEAD = sizeof(struct chunk), BATCH = 65536 };

struct kernel {
	u64 start, end;
	u32 corr, name, stream, context, gx, gy, gz;
	u16 bx, by, bz, registers;
	u32 shared, dynamic;
	u16 device, flags;
	u32 graph, local;
	u64 node;
};
struct copy {
	u64 start, end, bytes;
	u32 corr, stream, context;
	u16 device, peer;
	u8 kind, from, to, flags;
	u32 graph;
	u64 node;
};
struct fill {
	u64 start, end, bytes;
	u32 corr, stream, context;
	u16 device, memory;
	u32 value, graph;
	u64 node;
};
struct call {
	u64 start, end;
	u32 corr, thread, name;
	int32_t result;
};
struct nvtx {
	u64 time, id;
	u32 name, domain, thread;
	u16 op, pad;
};
struct device {
	u32 id, name, sms, major, minor, flags;
	u64 memory, bandwidth;
	u8 uuid[16];
};
struct clock {
	u64 cupti, realtime, monotonic;
	u32 gap, pad;
};
struct thread {
	u32 thread, name;
};
struct lost {
	u64 cupti, buffers, write, names, nvtx;
};
struct overhead {
	u64 start, end;
	u32 kind, thread;
};
struct graph {
	u64 start, end;
	u32 corr, stream, context, graph;
	u16 device, pad;
	u32 pad2;
};
struct end {
	u64 records, own, time;
};

// Readers take fields by name from here, so a field may be added and none moves under them.
static const char schema[] =
	"kernel:start u64,end u64,corr u32,name u32,stream u32,context u32,gx u32,gy u32,gz u32,bx u16,by u16,bz u16,registers u16,shared u32,dynamic u32,device u16,flags u16,graph u32,local u32,node u64\n"
	"copy:start u64,end u64,bytes u64,corr u32,stream u32,context u32,device u16,peer u16,kind u8,from u8,to u8,flags u8,graph u32,node u64\n"
	"fill:start u64,end u64,bytes u64,corr u32,stream u32,context u32,device u16,memory u16,value u32,graph u32,node u64\n"
	"call:start u64,end u64,corr u32,thread u32,name u32,result i32\n"
	"nvtx:time u64,id u64,name u32,domain u32,thread u32,op u16,pad u16\n"
	"device:id u32,name u32,sms u32,major u32,minor u32,flags u32,memory u64,bandwidth u64,uuid u8x16\n"
	"clock:cupti u64,realtime u64,monotonic u64,gap u32,pad u32\n"
	"thread:thread u32,name u32\n"
	"lost:cupti u64,buffers u64,write u64,names u64,nvtx u64\n"
	"overhead:start u64,end u64,kind u32,thread u32\n"
	"end:records u64,own u64,time u64\n"
	"graph:start u64,end u64,corr u32,stream u32,context u32,graph u32,device u16,pad u16,pad2 u32\n";

// What is collected of one type until it is worth a write, behind room for its head.
struct batch {
	u16 type, record;
	u32 n;
	u8 *room;
};
static u8 rooms[7][HEAD + BATCH] __attribute__((aligned(8)));
static struct batch kernels = {T_KERNEL, sizeof(struct kernel), 0, rooms[0]}, copies = {T_COPY, sizeof(struct copy), 0, rooms[1]}, fills = {T_FILL, sizeof(struct fill), 0, rooms[2]},
	calls = {T_CALL, sizeof(struct call), 0, rooms[3]}, threads = {T_THREAD, sizeof(struct thread), 0, rooms[4]}, overheads = {T_OVERHEAD, sizeof(struct overhead), 0, rooms[5]},
	graphs = {T_GRAPH, sizeof(struct graph), 0, rooms[6]};
static struct batch *const batches[] = {&kernels, &copies, &fills, &calls, &threads, &overheads, &graphs};

static _Atomic u64 written;
static dev_t file_dev;
static ino_t file_ino;
static u64 file_limit; // RLIMIT_FSIZE: a write beyond it sends a signal that ends the program

// end_writing ends a recording whose file takes no more.
static void end_writing(int code, u16 type, u32 n) {
	if (type >= T_KERNEL) atomic_fetch_add(&lost_write, n);
	failed("write", code, strerror(code));
	int recording = RECORDING;
	atomic_compare_exchange_strong(&state, &recording, STOPPING);
}

// put writes a chunk whose payload lies behind room for its head and has 7 bytes of room behind it. `lines` held.
static void put(u8 *buf, u16 type, u16 record, u32 n, u32 bytes) {
	int f = atomic_load(&fd);
	if (f < 0 || !bytes) return;
	while (bytes & 7) buf[HEAD + bytes++] = 0;
	struct chunk h = {MAGIC, type, record, n, bytes, now(CLOCK_REALTIME)};
	memcpy(buf, &h, sizeof h);
	u64 was = atomic_load(&written);
	int e = 0;
	struct stat now_there;
	// A program may close what it does not know, and get the number for a file of its own.
	if (fstat(f, &now_there) || now_there.st_dev != file_dev || now_there.st_ino != file_ino) {
		atomic_store(&fd, -1);
		return end_writing(EBADF, type, n);
	}
	if (file_limit - was < HEAD + bytes) e = EFBIG;
	for (size_t at = 0, all = HEAD + bytes; !e && at < all;) {
		ssize_t k = write(f, buf + at, all - at);
		if (k > 0) at += (size_t)k;
		else if (k == 0) e = ENOSPC;
		else if (errno != EINTR) e = errno;
	}
	if (!e) {
		atomic_store(&written, was + HEAD + bytes);
		return;
	}
	// No room: the torn chunk is taken back. What is in the file stays good.
	if (e != EFBIG && ftruncate(f, (off_t)was)) e = errno;
	atomic_store(&fd, -1);
	close(f);
	end_writing(e, type, n);
}

#include "names.h"

static void put_one(u16 type, const void *record, u32 bytes) {
	u8 buf[HEAD + 8192] __attribute__((aligned(8)));
	if (bytes > 8184) bytes = 8184;
	memcpy(buf + HEAD, record, bytes);
	put(buf, type, type == T_SCHEMA || type == T_PROCESS ? 0 : (u16)bytes, 1, bytes);
}
static void drain(struct batch *b) {
	if (!b->n) return;
	put_names(); // a name comes before what uses it
	put(b->room, b->type, b->record, b->n, b->n * b->record);
	b->n = 0;
}
static void add(struct batch *b, const void *record) {
	memcpy(b->room + HEAD + b->n * b->record, record, b->record);
	if ((++b->n + 1) * b->record > BATCH - 8) drain(b);
}

// What NVTX gives: filled by the program's threads, emptied by ours. Two buffers change places, so that no thread of
// the program waits while one is copied or written.
enum { RANGES = (1 << 20) / sizeof(struct nvtx) };
static u8 nvtx_room[2][HEAD + RANGES * sizeof(struct nvtx) + 8] __attribute__((aligned(8)));
static u32 nvtx_count, nvtx_into;
static void put_nvtx(void) { // `lines` held
	pthread_mutex_lock(&ranges);
	u32 n = nvtx_count;
	u8 *full = nvtx_room[nvtx_into];
	nvtx_into ^= 1, nvtx_count = 0;
	pthread_mutex_unlock(&ranges);
	put_names(); // after the records were taken: their names are all there
	put(full, T_NVTX, sizeof(struct nvtx), n, n * (u32)sizeof(struct nvtx));
}
static void drain_all(void) {
	pthread_mutex_lock(&lines);
	for (unsigned i = 0; i < COUNT(batches); i++) drain(batches[i]);
	put_nvtx();
	pthread_mutex_unlock(&lines);
}
