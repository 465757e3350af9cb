package cuda

import (
	"reflect"
	"runtime"
	"unsafe"

	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// fillDriver resolves every function of the table. Functions that are hot, or whose parameters in C differ from the
// table's, have hand-written bindings. All further functions are bound by the type of their field.
func fillDriver(d *driver, lib uintptr) error {
	v := reflect.ValueOf(d).Elem()
	calls := new(caller)
	var lacks string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Tag.Get("cu") == "" {
			continue
		}
		symbols, optional := symbolNames(f)
		name, addr := "", uintptr(0)
		for _, name = range symbols {
			if addr = dynlib.Symbol(lib, name); addr != 0 {
				break
			}
		}
		switch {
		case addr != 0 && !calls.setDirect(d, name, addr):
			dynlib.Bind(v.Field(i).Addr().Interface(), addr)
		case addr == 0 && !optional && lacks == "":
			lacks = symbols[0]
		}
	}
	if lacks == "" {
		return nil
	}
	var version int32
	if d.Version != nil && d.Version(&version) == success && version > 0 && version < minVersion {
		return tooOld(version)
	}
	return openError("%s has no function %s, so it is no NVIDIA driver of CUDA %s or newer", d.path, lacks, versionText(minVersion)).WithFix("update the driver to %s or newer", minPackages)
}

// caller makes C calls with its own array of arguments, because a variadic SyscallN would allocate a slice each time.
// It serves one device, which one goroutine calls.
type caller struct{ args [12]uintptr }

func (c *caller) call1(fn, a uintptr) Result {
	c.args[0] = a
	return c.callC(fn, 1)
}

func (c *caller) call2(fn, a, b uintptr) Result {
	c.args[0], c.args[1] = a, b
	return c.callC(fn, 2)
}

func (c *caller) call3(fn, a, b, d uintptr) Result {
	c.args[0], c.args[1], c.args[2] = a, b, d
	return c.callC(fn, 3)
}

func (c *caller) call4(fn, a, b, d, e uintptr) Result {
	c.args[0], c.args[1], c.args[2], c.args[3] = a, b, d, e
	return c.callC(fn, 4)
}

func (c *caller) callC(fn uintptr, n int) Result {
	r := dynlib.Call(fn, c.args[:n])
	return Result(int32(uint32(r)))
}

// callLaunch calls cuLaunchKernel with n = 11 arguments, or cuLaunchCooperativeKernel with 10.
func (c *caller) callLaunch(fn uintptr, l *launch, n int) Result {
	c.args = [...]uintptr{uintptr(l.fn), uintptr(l.blocks), 1, 1, uintptr(l.threads), 1, 1,
		uintptr(l.bytes), uintptr(l.stream), uintptr(unsafe.Pointer(&l.ptrs)), 0, 0}
	r := c.callC(fn, n)
	runtime.KeepAlive(l)
	return r
}

// setDirect binds the named function if it is hot or setReshaped can bind it, and reports whether it did. Hot functions
// are called through SyscallN, which allocates nothing; RegisterFunc would make reflect.Values. Go memory that a call
// accesses is on the heap, where it does not move, and kept alive during the call.
func (c *caller) setDirect(d *driver, name string, fn uintptr) bool {
	switch name {
	case "cuCtxSetCurrent":
		d.CtxSet = func(ctx ctxHandle) Result { return c.call1(fn, uintptr(ctx)) }
	case "cuStreamSynchronize":
		d.StreamSync = func(s streamHandle) Result { return c.call1(fn, uintptr(s)) }
	case "cuStreamWaitEvent":
		d.StreamWait = func(s streamHandle, e eventHandle) Result { return c.call3(fn, uintptr(s), uintptr(e), 0) }
	case "cuEventRecord":
		d.EventRecord = func(e eventHandle, s streamHandle) Result { return c.call2(fn, uintptr(e), uintptr(s)) }
	case "cuEventQuery":
		d.EventQuery = func(e eventHandle) Result { return c.call1(fn, uintptr(e)) }
	case "cuEventSynchronize":
		d.EventSync = func(e eventHandle) Result { return c.call1(fn, uintptr(e)) }
	case "cuEventElapsedTime", "cuEventElapsedTime_v2":
		d.EventElapsed = func(ms *float32, from, to eventHandle) Result {
			r := c.call3(fn, uintptr(unsafe.Pointer(ms)), uintptr(from), uintptr(to))
			runtime.KeepAlive(ms)
			return r
		}
	case "cuGraphLaunch":
		d.GraphLaunch = func(x execHandle, s streamHandle) Result { return c.call2(fn, uintptr(x), uintptr(s)) }
	case "cuLaunchKernel":
		d.Launch = func(l *launch) Result { return c.callLaunch(fn, l, 11) }
	case "cuLaunchCooperativeKernel":
		d.LaunchCoop = func(l *launch) Result { return c.callLaunch(fn, l, 10) }
	case "cuMemcpyHtoDAsync_v2":
		d.CopyToDev = func(dst devicePtr, src unsafe.Pointer, n uintptr, s streamHandle) Result {
			r := c.call4(fn, uintptr(dst), uintptr(src), n, uintptr(s))
			runtime.KeepAlive(src)
			return r
		}
	case "cuMemcpyDtoHAsync_v2":
		d.CopyFromDev = func(dst unsafe.Pointer, src devicePtr, n uintptr, s streamHandle) Result {
			r := c.call4(fn, uintptr(dst), uintptr(src), n, uintptr(s))
			runtime.KeepAlive(dst)
			return r
		}
	case "cuMemcpyDtoDAsync_v2":
		d.CopyOnDev = func(dst, src devicePtr, n uintptr, s streamHandle) Result {
			return c.call4(fn, uintptr(dst), uintptr(src), n, uintptr(s))
		}
	case "cuCtxResetPersistingL2Cache":
		d.ResetL2 = func() Result { return c.callC(fn, 0) }
	case "cuMemPoolTrimTo":
		d.PoolTrim = func(p poolHandle, keep uintptr) Result { return c.call2(fn, uintptr(p), keep) }
	case "cuMemPoolSetAttribute":
		d.PoolSet = func(p poolHandle, attr int32, v *uint64) Result {
			r := c.call3(fn, uintptr(p), uintptr(attr), uintptr(unsafe.Pointer(v)))
			runtime.KeepAlive(v)
			return r
		}
	default:
		return setReshaped(d, name, fn)
	}
	return true
}

// setReshaped binds the named function if it has more parameters in C than in the table, and reports whether it did.
func setReshaped(d *driver, name string, fn uintptr) bool {
	switch name {
	case "cuModuleLoadDataEx":
		var load func(m *moduleHandle, image *byte, n uint32, options *int32, values *uintptr) Result
		dynlib.Bind(&load, fn)
		d.ModuleLoad = func(m *moduleHandle, image *byte, j *jit) Result {
			// The driver reads the buffer's address from an array of words, which the garbage collector does not scan,
			// so the buffer is pinned during the call.
			var pin runtime.Pinner
			pin.Pin(j)
			defer pin.Unpin()
			options := [...]int32{jitErrorLog, jitErrorLogSize}
			values := [...]uintptr{uintptr(unsafe.Pointer(&j.log)), uintptr(len(j.log))}
			return load(m, image, uint32(len(options)), &options[0], &values[0])
		}
	case "cuGraphInstantiateWithFlags":
		var instantiate func(x *execHandle, g graphHandle, flags uint64) Result
		dynlib.Bind(&instantiate, fn)
		d.Instantiate = func(x *execHandle, g graphHandle) Result { return instantiate(x, g, 0) }
	case "cuGraphInstantiate_v2":
		var instantiate func(x *execHandle, g graphHandle, node, log *byte, size uintptr) Result
		dynlib.Bind(&instantiate, fn)
		d.Instantiate = func(x *execHandle, g graphHandle) Result { return instantiate(x, g, nil, nil, 0) }
	default:
		return false
	}
	return true
}
