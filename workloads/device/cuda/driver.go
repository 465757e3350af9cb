package cuda

import (
	"reflect"
	"strings"
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Opaque handles of the driver; 0 means no object.
type (
	ctxHandle    uintptr
	moduleHandle uintptr
	funcHandle   uintptr
	streamHandle uintptr
	eventHandle  uintptr
	graphHandle  uintptr
	execHandle   uintptr
	poolHandle   uintptr
	devicePtr    uint64
)

// launch holds the parameters of one launch, on the heap, where they do not move; ptrs[i] points to vals[i].
type launch struct {
	fn                     funcHandle
	stream                 streamHandle
	blocks, threads, bytes uint32
	params                 int // of the kernel, including the number of items
	vals                   [device.MaxArgs + 1]uint64
	ptrs                   [device.MaxArgs + 1]unsafe.Pointer
}

func newLaunch() *launch {
	l := new(launch)
	for i := range l.ptrs {
		l.ptrs[i] = unsafe.Pointer(&l.vals[i])
	}
	return l
}

// poolProps is CUmemPoolProps_v1, 88 bytes. The unnamed fields stay zero: handle types (not shared with other
// processes), security attributes, largest size and usage.
type poolProps struct {
	allocType    int32
	_            int32
	locationType int32
	locationID   int32
	_            [9]uint64
}

// Values of cuda.h.
const (
	allocationPinned = 1 // CU_MEM_ALLOCATION_TYPE_PINNED, the only type of pool memory
	locationDevice   = 1 // CU_MEM_LOCATION_TYPE_DEVICE

	poolReleaseThreshold = 4 // CU_MEMPOOL_ATTR_...
	poolReservedNow      = 5
	poolReservedHigh     = 6
	poolUsedHigh         = 8

	hostAllocPortable  = 1 // CU_MEMHOSTALLOC_...
	hostAllocDeviceMap = 2

	streamNonBlocking  = 1 // CU_STREAM_NON_BLOCKING
	captureThreadLocal = 1 // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL

	jitErrorLog     = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogSize = 6

	funcMaxThreads    = 0 // CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK
	funcStaticShared  = 1 // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
	funcDynamicShared = 8 // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

	attrMaxThreads      = 1 // CU_DEVICE_ATTRIBUTE_...
	attrSharedPerBlock  = 8
	attrClockKHz        = 13
	attrMultiprocessors = 16
	attrIntegrated      = 18
	attrComputeMode     = 20
	attrECC             = 32
	attrMemoryClockKHz  = 36
	attrBusWidth        = 37
	attrL2              = 38
	attrMajor           = 75
	attrMinor           = 76
	attrCooperative     = 95
	attrSharedOptin     = 97
	attrPools           = 115
)

// driver is the table of the CUDA driver functions in use. A tag lists a field's exported names in the order of
// trying; an optional function may be nil. Unlike an interface, the table can have missing functions, and launches
// avoid interface calls. Functions marked hot are called in timed regions and allocate nothing.
type driver struct {
	Init       func(flags uint32) Result                           `cu:"cuInit"`
	Version    func(v *int32) Result                               `cu:"cuDriverGetVersion"`
	ErrorName  func(r Result, s *unsafe.Pointer) Result            `cu:"cuGetErrorName"`
	ErrorText  func(r Result, s *unsafe.Pointer) Result            `cu:"cuGetErrorString"`
	Count      func(n *int32) Result                               `cu:"cuDeviceGetCount"`
	DeviceGet  func(dev *int32, i int32) Result                    `cu:"cuDeviceGet"`
	DeviceName func(s *byte, n int32, dev int32) Result            `cu:"cuDeviceGetName"`
	UUID       func(u *[16]byte, dev int32) Result                 `cu:"cuDeviceGetUuid"`
	UUIDv2     func(u *[16]byte, dev int32) Result                 `cu:"cuDeviceGetUuid_v2,optional"` // 11.4: a MIG instance's own
	Attribute  func(v *int32, attr int32, dev int32) Result        `cu:"cuDeviceGetAttribute"`
	TotalMem   func(n *uintptr, dev int32) Result                  `cu:"cuDeviceTotalMem_v2"`
	PCIBusID   func(s *byte, n int32, dev int32) Result            `cu:"cuDeviceGetPCIBusId"`
	CtxRetain  func(c *ctxHandle, dev int32) Result                `cu:"cuDevicePrimaryCtxRetain"`
	CtxRelease func(dev int32) Result                              `cu:"cuDevicePrimaryCtxRelease_v2"`
	CtxSet     func(c ctxHandle) Result                            `cu:"cuCtxSetCurrent"` // hot
	ResetL2    func() Result                                       `cu:"cuCtxResetPersistingL2Cache,optional"`
	ModuleLoad func(m *moduleHandle, image *byte, j *jit) Result   `cu:"cuModuleLoadDataEx"`
	Unload     func(m moduleHandle) Result                         `cu:"cuModuleUnload"`
	Function   func(f *funcHandle, m moduleHandle, s *byte) Result `cu:"cuModuleGetFunction"`
	FuncGet    func(v *int32, attr int32, f funcHandle) Result     `cu:"cuFuncGetAttribute"`
	FuncSet    func(f funcHandle, attr int32, v int32) Result      `cu:"cuFuncSetAttribute"`
	FuncLoad   func(f funcHandle) Result                           `cu:"cuFuncLoad,optional"` // 12.4
	// Occupancy returns the number of blocks of f that one multiprocessor can hold.
	Occupancy func(blocks *int32, f funcHandle, threads int32, shared uintptr) Result `cu:"cuOccupancyMaxActiveBlocksPerMultiprocessor"`

	MemAlloc  func(p *devicePtr, n uintptr) Result                         `cu:"cuMemAlloc_v2"`
	MemFree   func(p devicePtr) Result                                     `cu:"cuMemFree_v2"`
	MemInfo   func(free, total *uintptr) Result                            `cu:"cuMemGetInfo_v2"`
	HostAlloc func(p *unsafe.Pointer, n uintptr, flags uint32) Result      `cu:"cuMemHostAlloc"`
	HostFree  func(p unsafe.Pointer) Result                                `cu:"cuMemFreeHost"`
	Memset8   func(p devicePtr, v uint8, n uintptr, s streamHandle) Result `cu:"cuMemsetD8Async"`

	PoolCreate  func(p *poolHandle, props *poolProps) Result                          `cu:"cuMemPoolCreate,optional"` // pools: 11.2
	PoolDestroy func(p poolHandle) Result                                             `cu:"cuMemPoolDestroy,optional"`
	PoolTrim    func(p poolHandle, keep uintptr) Result                               `cu:"cuMemPoolTrimTo,optional"`       // hot
	PoolSet     func(p poolHandle, attr int32, v *uint64) Result                      `cu:"cuMemPoolSetAttribute,optional"` // hot
	PoolGet     func(p poolHandle, attr int32, v *uint64) Result                      `cu:"cuMemPoolGetAttribute,optional"`
	PoolAlloc   func(p *devicePtr, n uintptr, pool poolHandle, s streamHandle) Result `cu:"cuMemAllocFromPoolAsync,optional"`
	PoolFree    func(p devicePtr, s streamHandle) Result                              `cu:"cuMemFreeAsync,optional"`

	StreamCreate  func(s *streamHandle, flags uint32, priority int32) Result `cu:"cuStreamCreateWithPriority"`
	StreamDestroy func(s streamHandle) Result                                `cu:"cuStreamDestroy_v2"`
	StreamSync    func(s streamHandle) Result                                `cu:"cuStreamSynchronize"` // hot
	StreamWait    func(s streamHandle, e eventHandle) Result                 `cu:"cuStreamWaitEvent"`   // hot

	CaptureBegin func(s streamHandle, mode int32) Result                `cu:"cuStreamBeginCapture_v2"`
	CaptureEnd   func(s streamHandle, g *graphHandle) Result            `cu:"cuStreamEndCapture"`
	Instantiate  func(x *execHandle, g graphHandle) Result              `cu:"cuGraphInstantiateWithFlags,cuGraphInstantiate_v2"` // 11.4, 11.0
	GraphLaunch  func(x execHandle, s streamHandle) Result              `cu:"cuGraphLaunch"`                                     // hot
	ExecDestroy  func(x execHandle) Result                              `cu:"cuGraphExecDestroy"`
	GraphDestroy func(g graphHandle) Result                             `cu:"cuGraphDestroy"`
	GraphNodes   func(g graphHandle, nodes *uintptr, n *uintptr) Result `cu:"cuGraphGetNodes"`

	EventCreate  func(e *eventHandle, flags uint32) Result      `cu:"cuEventCreate"`
	EventRecord  func(e eventHandle, s streamHandle) Result     `cu:"cuEventRecord"`                            // hot
	EventQuery   func(e eventHandle) Result                     `cu:"cuEventQuery"`                             // hot
	EventSync    func(e eventHandle) Result                     `cu:"cuEventSynchronize"`                       // hot
	EventElapsed func(ms *float32, from, to eventHandle) Result `cu:"cuEventElapsedTime,cuEventElapsedTime_v2"` // hot
	EventDestroy func(e eventHandle) Result                     `cu:"cuEventDestroy_v2"`

	Launch      func(l *launch) Result                                                    `cu:"cuLaunchKernel"`            // hot
	LaunchCoop  func(l *launch) Result                                                    `cu:"cuLaunchCooperativeKernel"` // hot
	CopyToDev   func(dst devicePtr, src unsafe.Pointer, n uintptr, s streamHandle) Result `cu:"cuMemcpyHtoDAsync_v2"`      // hot
	CopyFromDev func(dst unsafe.Pointer, src devicePtr, n uintptr, s streamHandle) Result `cu:"cuMemcpyDtoHAsync_v2"`      // hot
	CopyOnDev   func(dst, src devicePtr, n uintptr, s streamHandle) Result                `cu:"cuMemcpyDtoDAsync_v2"`      // hot

	CanAccess   func(can *int32, dev, peer int32) Result                                                           `cu:"cuDeviceCanAccessPeer,optional"`
	EnablePeer  func(peer ctxHandle, flags uint32) Result                                                          `cu:"cuCtxEnablePeerAccess,optional"`
	DisablePeer func(peer ctxHandle) Result                                                                        `cu:"cuCtxDisablePeerAccess,optional"`
	CopyPeer    func(dst devicePtr, to ctxHandle, src devicePtr, from ctxHandle, n uintptr, s streamHandle) Result `cu:"cuMemcpyPeerAsync,optional"`

	path      string // path of the library, for messages
	simulated bool   // the library declares that it simulates a driver
}

// jit is the buffer into which the PTX compiler writes its error log.
type jit struct{ log [8192]byte }

func (j *jit) logText() string {
	s, _, _ := strings.Cut(string(j.log[:]), "\x00")
	return strings.Join(strings.Fields(s), " ")
}

// symbolNames returns the field's exported names, and whether the function is optional.
func symbolNames(f reflect.StructField) (symbols []string, optional bool) {
	symbols = strings.Split(f.Tag.Get("cu"), ",")
	if last := len(symbols) - 1; symbols[last] == "optional" {
		return symbols[:last], true
	}
	return symbols, false
}

func (d *driver) hasPools() bool {
	return d.PoolCreate != nil && d.PoolDestroy != nil && d.PoolTrim != nil && d.PoolSet != nil &&
		d.PoolGet != nil && d.PoolAlloc != nil && d.PoolFree != nil
}
