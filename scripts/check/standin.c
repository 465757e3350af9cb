// A CUDA runtime without a device, under which PyTorch's own caching allocator runs and records: cudaMalloc and
// cuMemCreate hand out numbers within a limit, kernels and copies to the device do nothing, events complete after a
// number of queries. Built and preloaded by scripts/check/standin.py. Environment: STANDIN_TOTAL bytes of the device,
// STANDIN_OTHER bytes that others hold, STANDIN_DEVICES, STANDIN_EVENT_LAG queries.
#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <pthread.h>
#include <dlfcn.h>
#undef cudaStreamGetCaptureInfo
#undef cudaStreamGetCaptureInfo_v2
#undef cudaGetDriverEntryPoint
#define API __attribute__((visibility("default")))
static pthread_mutex_t mu=PTHREAD_MUTEX_INITIALIZER;
static size_t envsz(const char*n,size_t d){const char*s=getenv(n);return s?strtoull(s,0,0):d;}
static size_t total(void){static size_t t;if(!t)t=envsz("STANDIN_TOTAL",(size_t)80<<30);return t;}
static size_t other(void){static size_t t=(size_t)-1;if(t==(size_t)-1)t=envsz("STANDIN_OTHER",(size_t)600<<20);return t;}
static int ndev(void){return (int)envsz("STANDIN_DEVICES",1);}
#define MAXD 8
typedef struct seg{uintptr_t a;size_t n;struct seg*next;}seg;
static seg*segs[MAXD];static size_t used[MAXD];
static __thread int cur=0;static __thread cudaError_t last=0;
static uintptr_t base(int d){return (uintptr_t)0x7f0000000000ull+((uintptr_t)d<<40);}
static cudaError_t ret(cudaError_t e){if(e)last=e;return e;}
static size_t r2(size_t n){return (n+(2u<<20)-1)/(2u<<20)*(2u<<20);}
API cudaError_t cudaMalloc(void**p,size_t n){
  if(!n){*p=0;return 0;}
  pthread_mutex_lock(&mu);
  size_t m=r2(n);
  if(used[cur]+other()+m>total()){pthread_mutex_unlock(&mu);return ret(cudaErrorMemoryAllocation);}
  seg**q=&segs[cur];uintptr_t a=base(cur);
  while(*q&&a+m>(*q)->a){a=(*q)->a+(*q)->n;q=&(*q)->next;} // the lowest address that fits
  seg*s=malloc(sizeof*s);s->a=a;s->n=m;s->next=*q;*q=s;used[cur]+=m;
  pthread_mutex_unlock(&mu);*p=(void*)a;return 0;}
API cudaError_t cudaFree(void*p){ if(!p)return 0;
  pthread_mutex_lock(&mu);
  for(int d=0;d<MAXD;d++)for(seg**q=&segs[d];*q;q=&(*q)->next)if((*q)->a==(uintptr_t)p){seg*s=*q;*q=s->next;used[d]-=s->n;free(s);pthread_mutex_unlock(&mu);return 0;}
  pthread_mutex_unlock(&mu);fprintf(stderr,"stand-in: cudaFree of unknown %p\n",p);return ret(cudaErrorInvalidValue);}
API cudaError_t cudaMemGetInfo(size_t*f,size_t*t){*t=total();*f=total()-other()-used[cur];return 0;}
API cudaError_t cudaGetDeviceCount(int*n){*n=ndev();return 0;}
API cudaError_t cudaGetDevice(int*d){*d=cur;return 0;}
API cudaError_t cudaSetDevice(int d){cur=d;return 0;}
API const char*cudaGetErrorString(cudaError_t e){return e==2?"out of memory":"stand-in error";}
API const char*cudaGetErrorName(cudaError_t e){return e==2?"cudaErrorMemoryAllocation":"cudaErrorStandIn";}
API cudaError_t cudaRuntimeGetVersion(int*v){*v=CUDART_VERSION;return 0;}
API cudaError_t cudaDriverGetVersion(int*v){*v=(int)envsz("STANDIN_DRIVER",13020);return 0;}
static void fillprop(struct cudaDeviceProp*p,int d){
  memset(p,0,sizeof*p);strcpy(p->name,"stand-in");p->totalGlobalMem=total();p->major=9;p->minor=0;p->multiProcessorCount=132;
  p->warpSize=32;p->maxThreadsPerBlock=1024;p->maxThreadsDim[0]=p->maxThreadsDim[1]=1024;p->maxThreadsDim[2]=64;
  p->maxGridSize[0]=2147483647;p->maxGridSize[1]=p->maxGridSize[2]=65535;p->sharedMemPerBlock=49152;p->sharedMemPerBlockOptin=232448;
  p->sharedMemPerMultiprocessor=233472;p->regsPerBlock=65536;p->regsPerMultiprocessor=65536;p->maxThreadsPerMultiProcessor=2048;
  p->l2CacheSize=50<<20;p->pciBusID=d;p->unifiedAddressing=1;p->textureAlignment=512;p->maxBlocksPerMultiProcessor=32;}
API cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp*p,int d){fillprop(p,d);return 0;}
#undef cudaGetDeviceProperties
API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp*p,int d){fillprop(p,d);return 0;}
API cudaError_t cudaDeviceGetAttribute(int*v,enum cudaDeviceAttr a,int d){
  switch((int)a){case 75:*v=9;break;case 76:*v=0;break;case 16:*v=132;break;case 39:*v=2048;break;case 10:*v=32;break;case 1:*v=1024;break;
  case 8:*v=49152;break;case 97:*v=232448;break;case 81:*v=233472;break;default:*v=1;}return 0;}
API cudaError_t cudaGetLastError(void){cudaError_t e=last;last=0;return e;}
API cudaError_t cudaPeekAtLastError(void){return last;}
API cudaError_t cudaLaunchKernel(const void*f,dim3 g,dim3 b,void**a,size_t s,cudaStream_t st){return 0;}
API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*c,const void*f,void**a){return 0;}
API cudaError_t cudaLaunchHostFunc(cudaStream_t s,cudaHostFn_t f,void*u){f(u);return 0;}
API cudaError_t cudaStreamAddCallback(cudaStream_t s,cudaStreamCallback_t f,void*u,unsigned fl){f(s,0,u);return 0;}
static int isdev(const void*p){uintptr_t a=(uintptr_t)p;return a>=base(0)&&a<base(MAXD);}
static void cp(void*d,const void*s,size_t n){ if(isdev(d))return; if(isdev(s))memset(d,0,n);else memcpy(d,s,n);}
API cudaError_t cudaMemcpy(void*d,const void*s,size_t n,enum cudaMemcpyKind k){cp(d,s,n);return 0;}
API cudaError_t cudaMemcpyAsync(void*d,const void*s,size_t n,enum cudaMemcpyKind k,cudaStream_t st){cp(d,s,n);return 0;}
API cudaError_t cudaMemcpyPeerAsync(void*d,int dd,const void*s,int sd,size_t n,cudaStream_t st){return 0;}
API cudaError_t cudaMemcpy2DAsync(void*d,size_t dp,const void*s,size_t sp,size_t w,size_t h,enum cudaMemcpyKind k,cudaStream_t st){return 0;}
API cudaError_t cudaMemset(void*d,int v,size_t n){return 0;}
API cudaError_t cudaMemsetAsync(void*d,int v,size_t n,cudaStream_t s){return 0;}
static uintptr_t nexth=0x1000;
// Events complete after STANDIN_EVENT_LAG queries.
typedef struct{int left;}ev;
API cudaError_t cudaEventCreateWithFlags(cudaEvent_t*e,unsigned f){ev*x=calloc(1,sizeof*x);*e=(cudaEvent_t)x;return 0;}
API cudaError_t cudaEventCreate(cudaEvent_t*e){return cudaEventCreateWithFlags(e,0);}
API cudaError_t cudaEventDestroy(cudaEvent_t e){free(e);return 0;}
API cudaError_t cudaEventRecord(cudaEvent_t e,cudaStream_t s){((ev*)e)->left=(int)envsz("STANDIN_EVENT_LAG",0);return 0;}
API cudaError_t cudaEventRecordWithFlags(cudaEvent_t e,cudaStream_t s,unsigned f){return cudaEventRecord(e,s);}
API cudaError_t cudaEventQuery(cudaEvent_t e){ev*x=(ev*)e;if(x->left>0){x->left--;return ret(cudaErrorNotReady);}return 0;}
API cudaError_t cudaEventSynchronize(cudaEvent_t e){((ev*)e)->left=0;return 0;}
API cudaError_t cudaEventElapsedTime(float*t,cudaEvent_t a,cudaEvent_t b){*t=1;return 0;}
API cudaError_t cudaStreamCreateWithPriority(cudaStream_t*s,unsigned f,int p){*s=(cudaStream_t)__sync_fetch_and_add(&nexth,64);return 0;}
API cudaError_t cudaStreamCreate(cudaStream_t*s){return cudaStreamCreateWithPriority(s,0,0);}
API cudaError_t cudaStreamDestroy(cudaStream_t s){return 0;}
API cudaError_t cudaStreamQuery(cudaStream_t s){return 0;}
API cudaError_t cudaStreamSynchronize(cudaStream_t s){return 0;}
API cudaError_t cudaStreamWaitEvent(cudaStream_t s,cudaEvent_t e,unsigned f){return 0;}
API cudaError_t cudaStreamGetPriority(cudaStream_t s,int*p){*p=0;return 0;}
API cudaError_t cudaDeviceGetStreamPriorityRange(int*l,int*g){*l=0;*g=-5;return 0;}
API cudaError_t cudaDeviceSynchronize(void){return 0;}
API cudaError_t cudaStreamIsCapturing(cudaStream_t s,enum cudaStreamCaptureStatus*c){*c=0;return 0;}
API cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t s,enum cudaStreamCaptureStatus*c,unsigned long long*id,cudaGraph_t*g,const cudaGraphNode_t**d,size_t*n){*c=0;if(id)*id=0;if(n)*n=0;return 0;}
#if CUDART_VERSION>=13000
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s,enum cudaStreamCaptureStatus*c,unsigned long long*id,cudaGraph_t*g,const cudaGraphNode_t**d,const cudaGraphEdgeData**e,size_t*n){*c=0;if(id)*id=0;if(n)*n=0;return 0;}
#else
API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s,enum cudaStreamCaptureStatus*c,unsigned long long*id){*c=0;if(id)*id=0;return 0;}
#endif
API cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode*m){return 0;}
API cudaError_t cudaHostAlloc(void**p,size_t n,unsigned f){return posix_memalign(p,4096,n?n:1)?2:0;}
API cudaError_t cudaFreeHost(void*p){free(p);return 0;}
API cudaError_t cudaHostRegister(void*p,size_t n,unsigned f){return 0;}
API cudaError_t cudaHostUnregister(void*p){return 0;}
API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes*a,const void*p){memset(a,0,sizeof*a);if(isdev(p)){a->type=2;a->device=0;a->devicePointer=(void*)p;}return 0;}
API cudaError_t cudaDeviceCanAccessPeer(int*c,int a,int b){*c=0;return 0;}
API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes*a,const void*f){memset(a,0,sizeof*a);a->binaryVersion=90;a->ptxVersion=90;a->maxThreadsPerBlock=1024;a->numRegs=32;return 0;}
API cudaError_t cudaFuncSetAttribute(const void*f,enum cudaFuncAttribute at,int v){return 0;}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int*n,const void*f,int b,size_t s,unsigned fl){*n=2;return 0;}
API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int*n,const void*f,int b,size_t s){*n=2;return 0;}
API cudaError_t cudaDeviceGetPCIBusId(char*b,int n,int d){snprintf(b,n,"0000:%02x:00.0",d);return 0;}
API cudaError_t cudaProfilerStart(void){return 0;} API cudaError_t cudaProfilerStop(void){return 0;}
// driver entry points for expandable segments
static size_t va_next[1];
static CUresult f_cuMemAddressReserve(CUdeviceptr*p,size_t n,size_t al,CUdeviceptr a,unsigned long long f){
  pthread_mutex_lock(&mu);if(!va_next[0])va_next[0]=base(0)+((uintptr_t)1<<39);*p=va_next[0];va_next[0]+=(n+(1ull<<30)-1)>>30<<30;pthread_mutex_unlock(&mu);return 0;}
static CUresult f_cuMemCreate(CUmemGenericAllocationHandle*h,size_t n,const CUmemAllocationProp*p,unsigned long long f){
  pthread_mutex_lock(&mu);if(used[0]+other()+n>total()){pthread_mutex_unlock(&mu);return CUDA_ERROR_OUT_OF_MEMORY;}
  used[0]+=n;size_t*x=malloc(sizeof*x);*x=n;*h=(CUmemGenericAllocationHandle)x;pthread_mutex_unlock(&mu);return 0;}
static CUresult f_cuMemRelease(CUmemGenericAllocationHandle h){pthread_mutex_lock(&mu);used[0]-=*(size_t*)h;free((void*)h);pthread_mutex_unlock(&mu);return 0;}
static CUresult f_zero(void){return 0;}
static CUresult f_attr(int*v,int a,int d){*v=0;return 0;}
static CUresult f_gran(size_t*g,const void*p,int o){*g=2u<<20;return 0;}
static CUresult f_notsup(void){return CUDA_ERROR_NOT_SUPPORTED;}
static CUresult f_errstr(CUresult r,const char**s){*s="stand-in driver error";return 0;}
static void*entry(const char*s){
  if(!strcmp(s,"cuMemAddressReserve"))return f_cuMemAddressReserve;
  if(!strcmp(s,"cuMemCreate"))return f_cuMemCreate;
  if(!strcmp(s,"cuMemRelease"))return f_cuMemRelease;
  if(!strcmp(s,"cuDeviceGetAttribute"))return f_attr;
  if(!strcmp(s,"cuMemGetAllocationGranularity"))return f_gran;
  if(!strcmp(s,"cuMemExportToShareableHandle")||!strcmp(s,"cuMemImportFromShareableHandle"))return f_notsup;
  if(!strcmp(s,"cuGetErrorString"))return f_errstr;
  if(!strcmp(s,"cuDevicePrimaryCtxGetState"))return dlsym(RTLD_DEFAULT,s);
  if(!strcmp(s,"cuCtxGetCurrent"))return dlsym(RTLD_DEFAULT,s);
  return f_zero;}
API cudaError_t cudaGetDriverEntryPoint(const char*s,void**f,unsigned long long fl,enum cudaDriverEntryPointQueryResult*r){*f=entry(s);if(r)*r=0;return 0;}
API cudaError_t cudaGetDriverEntryPointByVersion(const char*s,void**f,unsigned v,unsigned long long fl,enum cudaDriverEntryPointQueryResult*r){*f=entry(s);if(r)*r=0;return 0;}
// PyTorch before 2.9 takes them from the driver's library by their names.
#define BY_NAME(name,f) __asm__(".globl " #name "\n.set " #name "," #f)
BY_NAME(cuMemAddressReserve,f_cuMemAddressReserve);BY_NAME(cuMemCreate,f_cuMemCreate);BY_NAME(cuMemRelease,f_cuMemRelease);
BY_NAME(cuDeviceGetAttribute,f_attr);BY_NAME(cuMemGetAllocationGranularity,f_gran);BY_NAME(cuGetErrorString,f_errstr);
BY_NAME(cuMemExportToShareableHandle,f_notsup);BY_NAME(cuMemImportFromShareableHandle,f_notsup);
BY_NAME(cuMemMap,f_zero);BY_NAME(cuMemUnmap,f_zero);BY_NAME(cuMemSetAccess,f_zero);BY_NAME(cuMemAddressFree,f_zero);
BY_NAME(cuMulticastCreate,f_notsup);BY_NAME(cuMulticastAddDevice,f_notsup);BY_NAME(cuMulticastBindMem,f_notsup);
BY_NAME(cuMemsetD32Async,f_zero);BY_NAME(cuStreamWriteValue32,f_zero);BY_NAME(cuStreamWriteValue32_v2,f_zero);
// launch configuration stack
typedef struct{dim3 g,b;size_t s;void*st;}lc;static __thread lc st[16];static __thread int sp;
API unsigned __cudaPushCallConfiguration(dim3 g,dim3 b,size_t s,void*stream){lc x={g,b,s,stream};st[sp++&15]=x;return 0;}
API cudaError_t __cudaPopCallConfiguration(dim3*g,dim3*b,size_t*s,void*stream){lc x=st[--sp&15];*g=x.g;*b=x.b;*s=x.s;*(void**)stream=x.st;return 0;}
static void*fb[4];
API void**__cudaRegisterFatBinary(void*p){return fb;}
API void __cudaRegisterFatBinaryEnd(void**h){}
API void __cudaUnregisterFatBinary(void**h){}
API void __cudaRegisterFunction(void**h,const char*a,char*b,const char*c,int d,void*e,void*f,void*g,void*i,int*j){}
API void __cudaRegisterVar(void**h,char*a,char*b,const char*c,int d,size_t e,int f,int g){}
API char __cudaInitModule(void**h){return 1;}

// cuBLAS: handles and one algorithm, so that a product is asked for; it computes nothing.
API int cublasCreate_v2(void**h){*h=(void*)0x10;return 0;}
API int cublasGetMathMode(void*h,int*m){*m=0;return 0;}
API int cublasGetPointerMode_v2(void*h,int*m){*m=0;return 0;}
API int cublasLtMatmulDescCreate(void**d,int a,int b){*d=(void*)0x20;return 0;}
API int cublasLtMatmulPreferenceCreate(void**d){*d=(void*)0x30;return 0;}
API int cublasLtMatrixLayoutCreate(void**d,int t,unsigned long r,unsigned long c,long l){*d=(void*)0x40;return 0;}
API int cublasLtMatmulAlgoGetHeuristic(void*h,void*d,void*a,void*b,void*c,void*e,void*p,int n,void*res,int*got){memset(res,0,96);*got=1;return 0;}
API CUresult cuDevicePrimaryCtxGetState(CUdevice d,unsigned*f,int*a){if(f)*f=0;if(a)*a=1;return 0;}
API CUresult cuCtxGetCurrent(CUcontext*c){*c=(void*)0x50;return 0;}

// NVML, which PyTorch loads by its name: this file is built a second time under that.
API int nvmlDeviceGetHandleByPciBusId_v2(const char*s,void**h){*h=(void*)1;return 0;}
API int nvmlDeviceGetHandleByIndex_v2(unsigned i,void**h){*h=(void*)1;return 0;}
API int nvmlDeviceGetHandleByUUID(const char*s,void**h){*h=(void*)1;return 0;}
API int nvmlDeviceGetComputeRunningProcesses(void*h,unsigned*n,void*p){*n=0;return 0;}
API int nvmlDeviceGetCount_v2(unsigned*n){*n=1;return 0;}
API int nvmlDeviceGetGpuFabricInfoV(void*h,void*i){return 3;} // not supported
API int nvmlDeviceGetGpuFabricInfo(void*h,void*i){return 3;}
API const char*nvmlErrorString(int e){return "stand-in";}
API int nvmlInit_v2(void){return 0;}
API int nvmlDeviceGetNvLinkRemoteDeviceType(void){return 0;}
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void){return 0;}
API int nvmlSystemGetCudaDriverVersion_v2(void){return 0;}
