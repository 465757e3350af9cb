/* A management library of two GPUs, the second with a MIG instance once MIG is switched on.
   With NVML_HEADER the compiler compares every prototype with NVIDIA's header. */
#ifdef NVML_HEADER
#include NVML_HEADER
#else
typedef int nvmlReturn_t;
typedef struct { struct nvmlDevice_st *handle; } nvmlDevice_t;
typedef unsigned nvmlEnableState_t, nvmlClockType_t, nvmlClockId_t, nvmlTemperatureSensors_t, nvmlPcieUtilCounter_t,
    nvmlMemoryErrorType_t, nvmlEccCounterType_t, nvmlComputeMode_t, nvmlValueType_t;
typedef struct { unsigned gpu, memory; } nvmlUtilization_t;
typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned long long bar1Total, bar1Free, bar1Used; } nvmlBAR1Memory_t;
typedef struct { char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } nvmlPciInfo_t;
typedef struct { unsigned pid; unsigned long long usedGpuMemory; unsigned gpuInstanceId, computeInstanceId; } nvmlProcessInfo_t;
typedef union { double dVal; int siVal; unsigned uiVal; unsigned long ulVal; unsigned long long ullVal; signed long long sllVal; unsigned short usVal; } nvmlValue_t;
typedef struct { unsigned fieldId, scopeId; long long timestamp, latencyUsec; nvmlValueType_t valueType; nvmlReturn_t nvmlReturn; nvmlValue_t value; } nvmlFieldValue_t;
/* The first version of a list, which the header gives another name. */
typedef struct { unsigned pid; unsigned long long usedGpuMemory; } first_t;
static nvmlReturn_t first(unsigned *n, first_t *list) {
  unsigned room = *n;
  *n = 1;
  if (room < 1) return 7;
  list[0].pid = 41;
  list[0].usedGpuMemory = 1 << 21;
  return 0;
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned *n, first_t *list) { return first(n, list); }
#endif

#include <string.h>

struct nvmlDevice_st { unsigned index; int mig; };
static struct nvmlDevice_st gpus[] = {{0, 0}, {1, 0}}, instance = {1, 1};

/* What a test sets: the result of a start, MIG of the second GPU, how many processes there
   are, a result of every clock. */
static int of_init, mig, busy = 2, of_clock;
void simulate(const char *what, int value) {
  if (!strcmp(what, "init")) of_init = value;
  if (!strcmp(what, "mig")) mig = value;
  if (!strcmp(what, "processes")) busy = value;
  if (!strcmp(what, "clock")) of_clock = value;
}

nvmlReturn_t nvmlInit_v2(void) { return of_init; }
nvmlReturn_t nvmlShutdown(void) { return 0; }

static nvmlReturn_t text(char *to, unsigned n, const char *s) {
  if (strlen(s) >= n) return 7;
  strcpy(to, s);
  return 0;
}
nvmlReturn_t nvmlSystemGetDriverVersion(char *s, unsigned n) { return text(s, n, "550.54.15"); }
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *v) { *v = 12040; return 0; }
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *n) { *n = 2; return 0; }
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned i, nvmlDevice_t *d) {
  if (i > 1) return 2;
  d->handle = &gpus[i];
  return 0;
}
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char *s, unsigned n) {
  return text(s, n, d.handle->mig ? "NVIDIA A100-SXM4-40GB MIG 1g.5gb" : "NVIDIA A100-SXM4-40GB");
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char *s, unsigned n) {
  if (d.handle->mig) return text(s, n, "MIG-0f0f0f0f-0000-0000-0000-000000000000");
  return text(s, n, d.handle->index ? "GPU-1111bbbb-0000-0000-0000-000000000000" : "GPU-1111aaaa-0000-0000-0000-000000000000");
}
nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t d, nvmlPciInfo_t *p) {
  memset(p, 0xee, sizeof *p);
  p->domain = 0x10; p->bus = 0x17 + d.handle->index; p->device = 3;
  return 0;
}
nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t d, unsigned words, unsigned long *set) {
  memset(set, 0, words * sizeof *set);
  set[0] = 3ul | 1ul << 63;
  return 0;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned *mhz) {
  *mhz = (unsigned[]){1095, 1410, 1215, 0}[type];
  return of_clock;
}
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, nvmlClockType_t type, unsigned *mhz) {
  *mhz = (unsigned[]){1410, 1420, 1225, 0}[type];
  return of_clock;
}
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t d, nvmlClockType_t type, nvmlClockId_t id, unsigned *mhz) {
  *mhz = (unsigned[]){1095, 0, 1215, 0}[type] + id - 1;
  return 0;
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned *v) { *v = 61500; return 0; }
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t d, unsigned *v) { *v = 300000; return 0; }
nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t d, unsigned *v) { *v = 400000; return 0; }
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned *v) { *v = 290000; return 0; }
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, nvmlTemperatureSensors_t s, unsigned *v) { *v = 40 + s; return 0; }
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t *u) { u->gpu = 50; u->memory = 25; return 0; }
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t *m) {
  m->total = (d.handle->mig ? 5ull : 40ull) << 30;
  m->used = d.handle->mig ? 77 : 1 << 30;
  m->free = m->total - m->used;
  return 0;
}
nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t d, nvmlBAR1Memory_t *m) {
  m->bar1Total = 64ull << 30; m->bar1Used = 1 << 20; m->bar1Free = m->bar1Total - m->bar1Used;
  return 0;
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t d, unsigned *v) { *v = 3; return 0; }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t d, unsigned *v) { *v = 4; return 0; }
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t d, unsigned *v) { *v = 8; return 0; }
nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t d, unsigned *v) { *v = 16; return 0; }
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t d, nvmlPcieUtilCounter_t c, unsigned *v) { *v = 100 + c; return 0; }
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t d, unsigned long long *v) { *v = 4; return 0; }
nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t d, unsigned long long *v) { *v = 8; return 0; }
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long *v) { *v = 123456; return 0; }
nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t d, nvmlEnableState_t *v) { *v = 1; return 0; }
nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t d, nvmlEnableState_t *now, nvmlEnableState_t *next) { *now = 1; *next = 0; return 0; }
nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t d, nvmlMemoryErrorType_t kind, nvmlEccCounterType_t counter, unsigned long long *v) {
  *v = (1ull << 40) + kind * 10 + counter;
  return 0;
}
nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t d, nvmlEnableState_t *v) { *v = 0; return 0; }
nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  *corrected = 5; *uncorrected = 6; *pending = 1; *failed = 0;
  return 0;
}
nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t d, nvmlComputeMode_t *v) { *v = 3; return 0; }
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned *now, unsigned *next) { *now = d.handle->index && mig; *next = 1; return 0; }

/* Fields, one of each type; what is not among them has no value. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t d, int n, nvmlFieldValue_t *v) {
  for (int i = 0; i < n; i++) {
    v[i].nvmlReturn = 0;
    v[i].timestamp = v[i].latencyUsec = -1;
    memset(&v[i].value, 0xff, sizeof v[i].value); /* beyond the value it means nothing */
    switch (v[i].fieldId) {
    case 186: v[i].valueType = 1; v[i].value.uiVal = 62500; break;
    case 74: v[i].valueType = 3; v[i].value.ullVal = 5000000000ull; break;
    case 76: v[i].valueType = 2; v[i].value.ulVal = 0; break;
    case 9000: v[i].valueType = 0; v[i].value.dVal = -2.5; break;
    case 9004: v[i].valueType = 4; v[i].value.sllVal = -7; break;
    case 9005: v[i].valueType = 5; v[i].value.siVal = -3; break;
    case 9006: v[i].valueType = 6; v[i].value.usVal = 65535; break;
    case 9099: v[i].valueType = 99; break;
    default: v[i].nvmlReturn = 3;
    }
  }
  return 0;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *list) {
  unsigned room = *n;
  *n = busy;
  if (room < (unsigned)busy) return 7;
  for (int i = 0; i < busy; i++) {
    list[i].pid = 1 + i;
    list[i].usedGpuMemory = i == 1 ? ~0ull : 1ull << 33;
    list[i].gpuInstanceId = list[i].computeInstanceId = ~0u;
  }
  return 0;
}
nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *list) {
  if (*n < 1) return 7;
  *n = 1;
  list[0].pid = 1;
  return 0;
}
nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t d, unsigned *n, nvmlProcessInfo_t *list) { return 3; }

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t d, unsigned *n) { *n = 7; return 0; }
nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t d, unsigned i, nvmlDevice_t *to) {
  if (i != 4) return 6; /* the places before it are empty */
  to->handle = &instance;
  return 0;
}
nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t d, unsigned *id) { *id = 9; return 0; }
nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t d, unsigned *id) { *id = 2; return 0; }
