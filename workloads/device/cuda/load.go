package cuda

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/cuda/machinecode"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
)

// module is a loaded PTX text, shared by its kernels.
type module struct{ h moduleHandle }

// kernelFunc is a kernel that Load has prepared.
type kernelFunc struct {
	dev    *Device
	kernel *device.Kernel
	h      funcHandle
	launch func(*launch) Result // the driver's plain or cooperative launch
	lib    libRoutine           // if set, runs instead of h
	bufs   []int                // indices of the buffer parameters

	params     int // number of letters in the signature
	threads    uint32
	shared     uint32
	perBlock   int64
	mostBlocks int64 // maximum grid of a cooperative kernel

	seen [slots]uint64 // number of the last launch on each stream, see blame.go
}

// libRoutine is a vendor library's routine with a kernel's signature.
type libRoutine interface {
	enqueue(s streamHandle, n int, a *device.Args) Result
	libraryName() string // name and version
	// prepareCapture runs before a launch is captured on the device's own stream for a graph that runs on s. It
	// allocates the workspace of s, because a capture cannot allocate. endCapture ends the use of that workspace.
	prepareCapture(s streamHandle, n int, a *device.Args) error
	endCapture() error
}

func (f *kernelFunc) Kernel() *device.Kernel { return f.kernel }

// Library names the vendor library that runs the kernel, such as "cublas 12.8.4"; empty for PTX.
func (f *kernelFunc) Library() string {
	if f.lib == nil {
		return ""
	}
	return f.lib.libraryName()
}

// enqueue launches n > 0 checked items. It copies only the signature's parameters to the memory that the driver reads.
func (f *kernelFunc) enqueue(s streamHandle, n int, a *device.Args) Result {
	if f.lib != nil {
		return f.lib.enqueue(s, n, a)
	}
	l := f.dev.frame
	for i := range f.params {
		l.vals[i] = a[i].Bits
	}
	l.vals[f.params] = uint64(n)
	l.fn, l.stream, l.threads, l.bytes, l.params = f.h, s, f.threads, f.shared, f.params+1
	l.blocks = uint32(min((int64(n)+f.perBlock-1)/f.perBlock, f.mostBlocks))
	return f.launch(l)
}

func (f *kernelFunc) launchError(r Result, doing string) error {
	d := f.dev
	switch r {
	case errOutOfResources, errInvalidValue:
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: %s, since %d threads per block with %d bytes of shared memory are more than its registers allow", doing, d.drv.describeResult(r), f.threads, f.shared).WithFix("use fewer, or another impl")
	case errCooperativeTooLarge:
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: %s, since its blocks do not fit on the device at once", doing, d.drv.describeResult(r)).WithFix("use fewer threads or less shared memory, or another impl")
	}
	return d.check(r, doing)
}

// Load implements device.Device. The kernel must not change afterwards. Without PTX and Lib the kernel is one of the
// device's own (see ownKernel). With Lib the vendor library runs it if it loads, otherwise its PTX.
func (d *Device) Load(k *device.Kernel) (device.Func, error) {
	if err := d.enter("loading a kernel"); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := k.Check("CUDA"); err != nil {
		return nil, err
	}
	return d.load(k, k)
}

// load prepares k. The result's Kernel method returns as, the caller's kernel, of which k may be a copy.
func (d *Device) load(k, as *device.Kernel) (*kernelFunc, error) {
	f := &kernelFunc{dev: d, kernel: as, bufs: k.BufferParams(), params: len(k.Sig), mostBlocks: math.MaxInt32}
	if k.Lib != "" {
		lib, err := d.libRoutine(k)
		switch {
		case err == nil:
			f.lib = lib
			d.funcs = append(d.funcs, f)
			return f, nil
		case k.PTX == "":
			return nil, fmt.Errorf("loading kernel %s on CUDA: %w", k.Name, err)
		}
	}
	if k.PTX == "" {
		own, found := ownKernel(k.Name)
		if !found {
			return nil, gpuprof.Errorf(gpuprof.ErrDevice,
				"loading kernel %s on CUDA: it has neither PTX nor a library routine, so it runs on the host device only", k.Name).WithFix("set PTX")
		}
		if own.Sig != k.Sig {
			return nil, gpuprof.Errorf(gpuprof.ErrUsage,
				"loading kernel %s on CUDA: the device's own kernel of that name has signature %q, not %q", k.Name, own.Sig, k.Sig).WithFix("set PTX or rename it")
		}
		k = own
	}
	if err := d.loadPTX(f, k); err != nil {
		return nil, err
	}
	d.funcs = append(d.funcs, f)
	return f, nil
}

func (d *Device) readSource(k *device.Kernel) (*ptxText, error) {
	if p := d.sources[k.PTX]; p != nil {
		return p, nil
	}
	text, err := ptx.Text(k)
	if err != nil {
		return nil, err
	}
	p := readPTX(text)
	d.sources[k.PTX] = p
	return p, nil
}

// loadPTX loads k's PTX, each text once, and finds its entry.
func (d *Device) loadPTX(f *kernelFunc, k *device.Kernel) error {
	doing := "loading kernel " + k.Name + " on CUDA"
	entry := k.Entry
	if entry == "" {
		entry = k.Name
	}
	if !cName.MatchString(entry) {
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s: %q is no name of a C function", doing, entry).WithFix("set Entry")
	}
	if k.Threads < 1 || k.Threads > int(d.maxThreads) || k.PerBlock < 1 || k.SharedBytes < 0 {
		return gpuprof.Errorf(gpuprof.ErrUsage, "%s: %d threads per block for %d items with %d bytes of shared memory", doing, k.Threads, k.PerBlock, k.SharedBytes).WithFix("give 1 to %d threads, 1 or more items and 0 or more bytes", d.maxThreads)
	}
	ptx, err := d.readSource(k)
	if err == nil {
		err = ptx.checkEntry(entry, k.Sig)
	}
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: %w", doing, err)
	}
	if sm, _ := strconv.Atoi(strings.TrimPrefix(d.is.Arch, "sm_")); ptx.target > sm {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: its PTX is for sm_%d and newer and this GPU is %s", doing, ptx.target, d.is.Arch).WithFix("use a newer GPU or another implementation of it")
	}
	begin := time.Now()
	defer func() { d.loading += time.Since(begin) }() // drivers compile here or at the function's first use
	m, err := d.loadModule(ptx.text, doing)
	if err != nil {
		return err
	}
	name := append([]byte(entry), 0)
	if err := d.check(d.drv.Function(&f.h, m.h, &name[0]), doing); err != nil {
		return err
	}
	// Load the function now. Otherwise the driver loads it at the first use and may then wait for all work in flight.
	// Two kernels that wait for each other would then wait forever.
	if d.drv.FuncLoad != nil {
		if r := d.drv.FuncLoad(f.h); r != errNotSupported {
			if err := d.check(r, doing); err != nil {
				return err
			}
		}
	}
	f.threads, f.shared, f.perBlock = uint32(k.Threads), uint32(k.SharedBytes), int64(k.PerBlock)
	f.launch = d.drv.Launch
	if err := d.fitShared(f, doing); err != nil {
		return err
	}
	if k.Cooperative {
		return d.fitCooperative(f, doing)
	}
	return nil
}

// loadModule loads a PTX text once: as machine code if the program has it for this GPU and the driver accepts it,
// otherwise as text, which the driver compiles.
func (d *Device) loadModule(ptx, doing string) (*module, error) {
	if m := d.modules[ptx]; m != nil {
		return m, nil
	}
	m := new(module)
	code, made := d.compiled[ptx]
	if !made {
		code, _, _ = machinecode.For(ptx, d.is.Arch)
	}
	if len(code) > 0 && d.takesCode {
		// An older driver may not support the format, but can compile the PTX.
		switch r := d.drv.ModuleLoad(&m.h, &code[0], new(jit)); {
		case r == success:
			if !made {
				d.carried++
			}
			d.modules[ptx] = m
			return m, nil
		case !refusesCode(r):
			return nil, d.check(r, doing)
		}
	}
	image := append([]byte(ptx), 0)
	log := new(jit)
	switch r := d.drv.ModuleLoad(&m.h, &image[0], log); {
	case r == errUnsupportedPTX:
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "%s: %s, since the driver (CUDA %s) is older than the PTX", doing, d.drv.describeResult(r), d.is.CUDA).WithFix("update it")
	case (r == errInvalidPTX || r == errNoBinaryForGPU) && log.logText() != "":
		says := advice{"the driver's compiler says " + strconv.Quote(log.logText()), r.lookUpAdvice().fix}
		return nil, says.newError(gpuprof.ErrDevice, doing+": "+d.drv.describeResult(r))
	case r != success:
		return nil, d.check(r, doing)
	}
	d.modules[ptx] = m
	return m, nil
}

// refusesCode reports whether a result means that the driver refuses the machine code, and is no failure of the device.
func refusesCode(r Result) bool {
	switch r {
	case errInvalidImage, errNoBinaryForGPU, errInvalidPTX, errUnsupportedPTX, errInvalidValue, errNotSupported:
		return true
	}
	return false
}

// fitShared requests more dynamic shared memory for a kernel than it gets by default, if it needs more.
func (d *Device) fitShared(f *kernelFunc, doing string) error {
	var static int32
	if err := d.check(d.drv.FuncGet(&static, funcStaticShared, f.h), doing); err != nil {
		return err
	}
	most := max(d.sharedPerBlock, d.sharedOptin)
	total := int64(static) + int64(f.shared)
	if total > int64(most) {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: %d bytes of shared memory per block, and this GPU has %d", doing, total, most).WithFix("use smaller tiles")
	}
	if total > int64(d.sharedPerBlock) {
		return d.check(d.drv.FuncSet(f.h, funcDynamicShared, int32(f.shared)), doing)
	}
	return nil
}

// fitCooperative limits a kernel's grid to the blocks that run at once, since its blocks may wait for each other.
func (d *Device) fitCooperative(f *kernelFunc, doing string) error {
	if d.drv.readAttribute(attrCooperative, d.is.handle) == 0 {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: this GPU has no cooperative launches", doing).WithFix("use another implementation of it")
	}
	var blocks int32
	if err := d.check(d.drv.Occupancy(&blocks, f.h, int32(f.threads), uintptr(f.shared)), doing); err != nil {
		return err
	}
	if blocks < 1 {
		return gpuprof.Errorf(gpuprof.ErrDevice, "%s: not one block of %d threads with %d bytes of shared memory fits", doing, f.threads, f.shared).WithFix("use fewer")
	}
	f.launch = d.drv.LaunchCoop
	f.mostBlocks = int64(blocks) * int64(d.is.Cores)
	return nil
}
