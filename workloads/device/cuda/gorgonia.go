//go:build gorgonia && linux && cgo

package cuda

import (
	"reflect"
	"unsafe"

	"github.com/ebitengine/purego"
	"gorgonia.org/cu"

	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// implementation names the binding that fills the driver table.
const implementation = "gorgonia"

// openDriver fills the driver table with functions of gorgonia.org/cu. The binary is linked to libcuda through cu, so
// the argument library must be empty or name that same file. Functions that cu lacks (pools, pinned memory, captures,
// graph execution, cooperative launches, error names) are looked up in libcuda by purego.
//
// This build differs in two ways. cu starts the driver in its package initialisation and ends the process without a
// driver, so a failed load has no error message. cu.Function.Launch reads eight bytes of every parameter; all
// parameters of gpuprof have eight.
func openDriver(library string) (*driver, error) {
	linked := uintptr(purego.RTLD_DEFAULT)
	if library != "" {
		h, _, err := dynlib.First([]string{library})
		switch {
		case err != nil:
			return nil, notLoaded(err)
		case dynlib.Symbol(h, "cuInit") != dynlib.Symbol(linked, "cuInit"):
			return nil, openError("this build is linked to the driver's library and cannot use %s", library).WithFix("build without -tags gorgonia")
		}
	}
	d := &driver{path: library, simulated: dynlib.Symbol(linked, simulatedSymbol) != 0}
	if library == "" {
		d.path = "the linked libcuda"
	}
	if err := fillDriver(d, linked); err != nil {
		return nil, err
	}
	gorgoniaSetUp(d)
	gorgoniaMemory(d)
	gorgoniaStreams(d)
	gorgoniaWork(d)
	return d, nil
}

// resultOf returns the number of a cu error, whose type is unexported.
func resultOf(err error) Result {
	if err == nil {
		return success
	}
	if v := reflect.ValueOf(err); v.CanInt() {
		return Result(v.Int())
	}
	return errUnknown
}

// cu's handles are structs with one unexported C pointer.
func cuStream(h streamHandle) cu.Stream     { return *(*cu.Stream)(unsafe.Pointer(&h)) }
func cuEvent(h eventHandle) cu.Event        { return *(*cu.Event)(unsafe.Pointer(&h)) }
func cuFunction(h funcHandle) cu.Function   { return *(*cu.Function)(unsafe.Pointer(&h)) }
func cuModule(h moduleHandle) cu.Module     { return *(*cu.Module)(unsafe.Pointer(&h)) }
func cuContext(h ctxHandle) cu.CUContext    { return *(*cu.CUContext)(unsafe.Pointer(&h)) }
func handleFrom[H ~uintptr, T any](v T) H   { return *(*H)(unsafe.Pointer(&v)) }
func set[T any](to *T, v T, e error) Result { *to = v; return resultOf(e) }

func gorgoniaSetUp(d *driver) {
	d.Version = func(v *int32) Result {
		n := cu.Version()
		if n < 0 {
			return errUnknown
		}
		*v = int32(n)
		return success
	}
	d.Count = func(n *int32) Result { v, err := cu.NumDevices(); return set(n, int32(v), err) }
	d.DeviceGet = func(dev *int32, i int32) Result { v, err := cu.GetDevice(int(i)); return set(dev, int32(v), err) }
	d.DeviceName = func(s *byte, n int32, dev int32) Result {
		name, err := cu.Device(dev).Name()
		to := unsafe.Slice(s, n)
		to[min(copy(to, name), int(n)-1)] = 0
		return resultOf(err)
	}
	d.UUID = func(u *[16]byte, dev int32) Result { v, err := cu.Device(dev).UUID(); return set(u, [16]byte(v), err) }
	d.Attribute = func(v *int32, attr, dev int32) Result {
		n, err := cu.Device(dev).Attribute(cu.DeviceAttribute(attr))
		return set(v, int32(n), err)
	}
	d.TotalMem = func(n *uintptr, dev int32) Result {
		v, err := cu.Device(dev).TotalMem()
		return set(n, uintptr(v), err)
	}
	d.CtxRetain = func(c *ctxHandle, dev int32) Result {
		v, err := cu.Device(dev).RetainPrimaryCtx()
		return set(c, handleFrom[ctxHandle](v), err)
	}
	d.CtxRelease = func(dev int32) Result { return resultOf(cu.Device(dev).ReleasePrimaryCtx()) }
	d.CtxSet = func(c ctxHandle) Result { return resultOf(cu.SetCurrentContext(cuContext(c))) }
	d.ResetL2 = func() Result { c := cuContext(0); return resultOf(c.ResetL2Cache()) }
	d.ModuleLoad = func(m *moduleHandle, image *byte, j *jit) Result {
		// LoadDataEx copies the text; the log buffer is on the heap and does not move.
		v, err := cu.LoadDataEx(cText(image), &cu.JITErrorLogBuffer{Buffer: j.log[:]})
		return set(m, handleFrom[moduleHandle](v), err)
	}
	d.Unload = func(m moduleHandle) Result { return resultOf(cuModule(m).Unload()) }
	d.Function = func(f *funcHandle, m moduleHandle, s *byte) Result {
		v, err := cuModule(m).Function(cText(s))
		return set(f, handleFrom[funcHandle](v), err)
	}
	d.FuncGet = func(v *int32, attr int32, f funcHandle) Result {
		n, err := cuFunction(f).Attribute(cu.FunctionAttribute(attr))
		return set(v, int32(n), err)
	}
	d.Occupancy = func(blocks *int32, f funcHandle, threads int32, shared uintptr) Result {
		n, err := cuFunction(f).MaxActiveBlocksPerMultiProcessor(int(threads), int64(shared))
		return set(blocks, int32(n), err)
	}
}

// cText returns a zero-terminated text of any length, without the zero.
func cText(s *byte) string {
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(s), n)) != 0 {
		n++
	}
	return unsafe.String(s, n)
}

func gorgoniaMemory(d *driver) {
	d.MemAlloc = func(p *devicePtr, n uintptr) Result {
		v, err := cu.MemAlloc(int64(n))
		return set(p, devicePtr(v), err)
	}
	d.MemFree = func(p devicePtr) Result { return resultOf(cu.MemFree(cu.DevicePtr(p))) }
	d.MemInfo = func(free, total *uintptr) Result {
		f, t, err := cu.MemInfo()
		*total = uintptr(t)
		return set(free, uintptr(f), err)
	}
	d.HostFree = func(p unsafe.Pointer) Result { return resultOf(cu.MemFreeHost(p)) }
	d.Memset8 = func(p devicePtr, v uint8, n uintptr, s streamHandle) Result {
		return resultOf(cu.MemsetD8Async(cu.DevicePtr(p), v, int64(n), cuStream(s)))
	}
}

func gorgoniaStreams(d *driver) {
	d.StreamCreate = func(s *streamHandle, flags uint32, priority int32) Result {
		v, err := cu.MakeStreamWithPriority(int(priority), cu.StreamFlags(flags))
		return set(s, handleFrom[streamHandle](v), err)
	}
	d.StreamDestroy = func(s streamHandle) Result { v := cuStream(s); return resultOf(v.Destroy()) }
	d.StreamSync = func(s streamHandle) Result { return resultOf(cuStream(s).Synchronize()) }
	d.StreamWait = func(s streamHandle, e eventHandle) Result { return resultOf(cuStream(s).Wait(cuEvent(e), 0)) }
	d.EventCreate = func(e *eventHandle, flags uint32) Result {
		v, err := cu.MakeEvent(cu.EventFlags(flags))
		return set(e, handleFrom[eventHandle](v), err)
	}
	d.EventRecord = func(e eventHandle, s streamHandle) Result { return resultOf(cuEvent(e).Record(cuStream(s))) }
	d.EventQuery = func(e eventHandle) Result { return resultOf(cuEvent(e).Query()) }
	d.EventSync = func(e eventHandle) Result { return resultOf(cuEvent(e).Synchronize()) }
	d.EventElapsed = func(ms *float32, from, to eventHandle) Result {
		v, err := cuEvent(from).Elapsed(cuEvent(to))
		return set(ms, float32(v), err)
	}
	d.EventDestroy = func(e eventHandle) Result { v := cuEvent(e); return resultOf(cu.DestroyEvent(&v)) }
}

func gorgoniaWork(d *driver) {
	d.Launch = func(l *launch) Result {
		return resultOf(cuFunction(l.fn).Launch(int(l.blocks), 1, 1, int(l.threads), 1, 1, int(l.bytes), cuStream(l.stream), l.ptrs[:l.params]))
	}
	d.CopyToDev = func(dst devicePtr, src unsafe.Pointer, n uintptr, s streamHandle) Result {
		return resultOf(cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src, int64(n), cuStream(s)))
	}
	d.CopyFromDev = func(dst unsafe.Pointer, src devicePtr, n uintptr, s streamHandle) Result {
		return resultOf(cu.MemcpyDtoHAsync(dst, cu.DevicePtr(src), int64(n), cuStream(s)))
	}
	d.CopyOnDev = func(dst, src devicePtr, n uintptr, s streamHandle) Result {
		return resultOf(cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), int64(n), cuStream(s)))
	}
}
