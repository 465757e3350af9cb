// What is used of CUPTI, by number: records, errors and names are the same from CUDA 11.7 to 13.5.
enum { K_MEMCPY = 1, K_MEMSET = 2, K_KERNEL = 3, K_DRIVER = 4, K_RUNTIME = 5, K_DEVICE = 8, K_CONCURRENT = 10, K_OVERHEAD = 17, K_MEMCPY2 = 22, K_GRAPH = 51 };
enum { OK = 0, E_NOT_INITIALIZED = 15, E_NOT_SUPPORTED = 34, E_SUBSCRIBERS = 39 };
enum { DOM_DRIVER = 1, DOM_RUNTIME = 2, DOM_RESOURCE = 3, CB_CONTEXT_ENDS = 2, CB_CU_INIT_FINISHED = 5 };
enum { ATTR_THREAD_ID = 21, SYSTEM_THREAD_ID = 1 };
enum { V2_FROM = 130300, V2_LARGE_PARAMS = 130200, NULL_BUFFER_FROM = 27 };

struct subscriber_params {
	size_t size;
	const char *name;
	char *other; // the tool that is there already
	size_t other_size;
	u8 allow, pad[7];
};
typedef void (*request_fn)(u8 **, size_t *, size_t *);
typedef void (*complete_fn)(void *, u32, u8 *, size_t, size_t);
typedef void (*request2_fn)(u8 **, size_t *, size_t *, void *);
typedef void (*complete2_fn)(u8 *, size_t, size_t, void *);

static struct {
	int (*version)(u32 *), (*timestamp)(u64 *), (*subscribe)(void **, void *, void *), (*subscribe2)(void **, void *, void *, struct subscriber_params *);
	int (*unsubscribe)(void *), (*callback)(u32, void *, u32, u32), (*thread_ids)(int), (*name)(u32, u32, const char **);
	int (*enable)(int), (*disable)(int), (*buffers)(request_fn, complete_fn), (*next)(u8 *, size_t, u8 **), (*dropped)(void *, u32, size_t *), (*flush)(u32);
	int (*runtime)(u32, u8), (*driver)(u32, u8);
	// All of these or none: the two families must not be mixed.
	int (*timestamp2)(void *, u64 *), (*enable2)(void *, int, void *), (*disable2)(void *, int, void *), (*buffers2)(void *, request2_fn, complete2_fn);
	int (*next2)(void *, u8 *, size_t, u8 **), (*dropped2)(void *, void *, u32, size_t *), (*runtime2)(void *, u32, u8), (*driver2)(void *, u32, u8), (*attribute2)(void *, int, size_t *, void *);
} C;

enum { MAY, MUST, SCOPED };
static const struct {
	void *fn;
	const char *name;
	int need;
} wanted[] = {
	{&C.version, "cuptiGetVersion", MUST},
	{&C.timestamp, "cuptiGetTimestamp", MUST},
	{&C.subscribe, "cuptiSubscribe", MUST},
	{&C.subscribe2, "cuptiSubscribe_v2", MAY},
	{&C.unsubscribe, "cuptiUnsubscribe", MUST},
	{&C.callback, "cuptiEnableCallback", MAY},
	{&C.thread_ids, "cuptiSetThreadIdType", MAY},
	{&C.name, "cuptiGetCallbackName", MUST},
	{&C.enable, "cuptiActivityEnable", MUST},
	{&C.disable, "cuptiActivityDisable", MUST},
	{&C.buffers, "cuptiActivityRegisterCallbacks", MUST},
	{&C.next, "cuptiActivityGetNextRecord", MUST},
	{&C.dropped, "cuptiActivityGetNumDroppedRecords", MAY},
	{&C.flush, "cuptiActivityFlushAll", MUST},
	{&C.runtime, "cuptiActivityEnableRuntimeApi", MAY},
	{&C.driver, "cuptiActivityEnableDriverApi", MAY},
	{&C.timestamp2, "cuptiGetTimestamp_v2", SCOPED},
	{&C.enable2, "cuptiActivityEnable_v2", SCOPED},
	{&C.disable2, "cuptiActivityDisable_v2", SCOPED},
	{&C.buffers2, "cuptiActivityRegisterCallbacks_v2", SCOPED},
	{&C.next2, "cuptiActivityGetNextRecord_v2", SCOPED},
	{&C.dropped2, "cuptiActivityGetNumDroppedRecords_v2", SCOPED},
	{&C.runtime2, "cuptiActivityEnableRuntimeApi_v2", SCOPED},
	{&C.driver2, "cuptiActivityEnableDriverApi_v2", SCOPED},
	{&C.attribute2, "cuptiActivitySetAttribute_v2", SCOPED},
};
static u32 version;
static int scoped; // the functions of one subscriber, from 13.3
static void *sub;
