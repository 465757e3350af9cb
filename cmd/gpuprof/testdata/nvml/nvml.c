/* A management library whose GPUs are as the variable NVML_GPUS says: one after the other, with
   "|" between them, each a list of settings with commas:
     handle=N    asking for the handle gives N; 1000 never returns, and no polite signal ends that
     state=N     every query about the state gives N
     identity=N  name, UUID and address give N
     clocks=N    one query, of the clocks, gives N
     fields=N    every field gives N; the recovery action is a field
     errors=N    the queries about memory errors give N
     memory=N    the query of the memory's size gives N
     ecc=N rows=N pending=N failed=N action=N   what these queries report
   NVML_INIT is the result of the start. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int R;
typedef void *D;

static int number(const char *name, int unset) {
  const char *s = getenv(name);
  return s ? atoi(s) : unset;
}

/* A setting of GPU i. */
static int of(long i, const char *name, int unset) {
  const char *s = getenv("NVML_GPUS");
  if (!s) return unset;
  for (; i > 0; i--) {
    s = strchr(s, '|');
    if (!s) return unset;
    s++;
  }
  size_t n = strlen(name);
  for (; *s && *s != '|'; s++)
    if (!strncmp(s, name, n) && s[n] == '=') return atoi(s + n + 1);
    else while (*s && *s != ',' && *s != '|') if (!*++s || *s == '|') { s--; break; }
  return unset;
}
static long at(D d) { return (long)d - 1; }
static R state(D d) { return of(at(d), "state", 0); }
static R either(D d, const char *name) { R r = of(at(d), name, 0); return r ? r : state(d); }
static R text(char *to, unsigned n, const char *s) { return strlen(s) < n ? (strcpy(to, s), 0) : 7; }

R nvmlInit_v2(void) { return number("NVML_INIT", 0); }
R nvmlShutdown(void) { return 0; }
R nvmlSystemGetDriverVersion(char *s, unsigned n) { return text(s, n, "550.54.15"); }
R nvmlDeviceGetCount_v2(unsigned *n) {
  const char *s = getenv("NVML_GPUS");
  for (*n = 1; s && (s = strchr(s, '|')); s++) ++*n;
  return 0;
}
R nvmlDeviceGetHandleByIndex_v2(unsigned i, D *d) {
  *d = (D)(long)(i + 1);
  if (of(i, "handle", 0) == 1000) {
    signal(SIGTERM, SIG_IGN);
    for (;;) pause();
  }
  return of(i, "handle", 0);
}
R nvmlDeviceGetName(D d, char *s, unsigned n) { R r = of(at(d), "identity", 0); return r ? r : text(s, n, "NVIDIA Test"); }
R nvmlDeviceGetUUID(D d, char *s, unsigned n) {
  char b[64];
  R r = of(at(d), "identity", 0);
  sprintf(b, "GPU-%08lx-0000-0000-0000-000000000000", 0xa0 + at(d));
  return r ? r : text(s, n, b);
}
typedef struct { char legacy[16]; unsigned domain, bus, device, id, sub; char bus_id[32]; } pci;
R nvmlDeviceGetPciInfo_v3(D d, pci *p) {
  memset(p, 0, sizeof *p);
  p->bus = 0x10 * (at(d) + 1);
  return of(at(d), "identity", 0);
}
R nvmlDeviceGetClockInfo(D d, unsigned type, unsigned *v) { *v = 1000; return either(d, "clocks"); }
R nvmlDeviceGetPersistenceMode(D d, unsigned *v) { *v = 1; return state(d); }
typedef struct { unsigned long long total, free, used; } memory;
R nvmlDeviceGetMemoryInfo(D d, memory *m) { m->total = m->free = 1ull << 36; m->used = 0; return either(d, "memory"); }
R nvmlDeviceGetEccMode(D d, unsigned *now, unsigned *next) { *now = *next = 1; return either(d, "errors"); }
R nvmlDeviceGetTotalEccErrors(D d, unsigned kind, unsigned counter, unsigned long long *v) { *v = of(at(d), "ecc", 0); return either(d, "errors"); }
R nvmlDeviceGetRemappedRows(D d, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  *corrected = 0;
  *uncorrected = of(at(d), "rows", 0);
  *pending = of(at(d), "pending", 0);
  *failed = of(at(d), "failed", 0);
  return either(d, "errors");
}
typedef struct { unsigned id, scope; long long at, took; unsigned type; R result; union { unsigned v; double d; } value; } field;
R nvmlDeviceGetFieldValues(D d, int n, field *f) {
  for (int i = 0; i < n; i++) {
    R r = of(at(d), "fields", 0);
    f[i].result = f[i].id == 230 ? r ? r : state(d) : 3;
    f[i].type = 1;
    f[i].value.v = of(at(d), "action", 0);
  }
  return 0;
}
