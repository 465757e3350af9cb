package cuda

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/gpuprof/gpuprof"
)

// AllReduce is the result of MeasureAllReduce: how fast GPUs of one machine sum arrays with NCCL.
type AllReduce struct {
	Library   string // "nccl 2.27.3"
	GPUs      int
	Bytes     int     // size of the array on each GPU
	TookS     float64 // time of one all-reduce, by events of the first GPU
	BusPerS   float64 // bytes per second, see BusBandwidth
	Simulated bool
}

// BusBandwidth returns the bus bandwidth of an all-reduce over n GPUs in bytes per second, as NVIDIA's nccl-tests
// define it: 2 (n - 1)/n times bytes, divided by seconds. It is the load on every link, for any algorithm.
func BusBandwidth(n, bytes int, seconds float64) float64 {
	return 2 * float64(n-1) / float64(n) * float64(bytes) / seconds
}

// Constants of nccl.h.
const (
	ncclFloat32 = 7
	ncclSum     = 0
)

// nccl is NCCL with one communicator per device.
type nccl struct {
	devices []*Device
	version string
	comms   []uintptr

	getVersion func(v *int32) int32
	errorText  func(status int32) unsafe.Pointer
	initAll    func(comms *uintptr, n int32, devices *int32) int32
	destroy    func(comm uintptr) int32
	groupStart func() int32
	groupEnd   func() int32
	allReduce  func(send, recv devicePtr, count uintptr, kind, op int32, comm uintptr, s streamHandle) int32
}

// MeasureAllReduce sums arrays of n bytes of float32 over the devices and returns the fastest of tries, after one
// warm-up. It checks the sum on every device. The devices must be different, idle and opened by the calling goroutine.
func MeasureAllReduce(ctx context.Context, devices []*Device, n, tries int) (out AllReduce, err error) {
	const doing = "measuring an all-reduce"
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", doing, err)
		}
	}()
	if len(devices) < 2 || n < 4 || tries < 1 {
		return out, gpuprof.Errorf(gpuprof.ErrUsage, "%d devices, %d bytes, %d tries", len(devices), n, tries).WithFix("name two devices or more, at least 4 bytes and one try")
	}
	c := &nccl{devices: devices}
	if err := useVendor("NCCL", []string{"libnccl.so.2"}, c.startLibrary); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	count := n / floatBytes
	var send, recv []devicePtr
	var frees []func() error
	defer func() {
		for _, free := range frees {
			err = errors.Join(err, free())
		}
	}()
	for rank, d := range devices {
		from, freeFrom, err := d.rankMemory(count, rank)
		if err != nil {
			return out, err
		}
		frees = append(frees, freeFrom)
		to, freeTo, err := d.peerMemory(count*floatBytes, nil)
		if err != nil {
			return out, err
		}
		frees = append(frees, freeTo)
		send, recv = append(send, from), append(recv, to)
	}
	took, err := c.timeBest(ctx, tries, func() error { return c.sum(send, recv, count) })
	if err != nil {
		return out, err
	}
	for i, d := range devices {
		if err := d.checkSum(recv[i], count, len(devices)); err != nil {
			return out, err
		}
	}
	return AllReduce{Library: "nccl " + c.version, GPUs: len(devices), Bytes: count * floatBytes, TookS: took,
		BusPerS: BusBandwidth(len(devices), count*floatBytes, took), Simulated: devices[0].is.Simulated}, nil
}

const floatBytes = 4

func (c *nccl) startLibrary(lib uintptr, path string) error {
	if err := bindSymbols(lib, path, []symbol{
		{"ncclGetVersion", &c.getVersion, false}, {"ncclGetErrorString", &c.errorText, false}, {"ncclCommInitAll", &c.initAll, false}, {"ncclCommDestroy", &c.destroy, false},
		{"ncclGroupStart", &c.groupStart, false}, {"ncclGroupEnd", &c.groupEnd, false}, {"ncclAllReduce", &c.allReduce, false},
	}); err != nil {
		return err
	}
	var v int32
	if err := c.check(c.getVersion(&v), "asking for its version"); err != nil {
		return err
	}
	c.version = fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100)
	ids := make([]int32, len(c.devices))
	for i, d := range c.devices {
		ids[i] = int32(d.is.Index)
	}
	comms := make([]uintptr, len(c.devices))
	if err := c.check(c.initAll(&comms[0], int32(len(ids)), &ids[0]), "making communicators"); err != nil {
		return fmt.Errorf("%s does not start: %w", path, err)
	}
	c.comms = comms
	return nil
}

func (c *nccl) close() error {
	var errs []error
	for _, comm := range c.comms {
		errs = append(errs, c.check(c.destroy(comm), "ending a communicator"))
	}
	c.comms = nil
	return errors.Join(errs...)
}

func (c *nccl) check(status int32, doing string) error {
	if status == 0 {
		return nil
	}
	return gpuprof.Errorf(gpuprof.ErrDevice, "%s: NCCL status %d (%s)", doing, status, cString(c.errorText(status))).WithFix("run again with NCCL_DEBUG=INFO, which prints the cause")
}

func (c *nccl) sum(send, recv []devicePtr, count int) error {
	if err := c.check(c.groupStart(), "beginning a group"); err != nil {
		return err
	}
	var bad error
	for i, d := range c.devices {
		if bad = c.check(c.allReduce(send[i], recv[i], uintptr(count), ncclFloat32, ncclSum, c.comms[i], d.own), "adding up"); bad != nil {
			break
		}
	}
	return errors.Join(bad, c.check(c.groupEnd(), "ending a group"))
}

// timeBest returns the shortest time of work in seconds, by the first device's events. Each run starts on idle devices.
func (c *nccl) timeBest(ctx context.Context, tries int, work func() error) (least float64, err error) {
	d := c.devices[0]
	from, to, err := d.eventPair()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, d.endEvents(from, to)) }()
	for try := range tries + 1 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if err := c.waitIdle(); err != nil {
			return 0, err
		}
		s, err := d.timeWork(from, to, work)
		if err != nil {
			return 0, err
		}
		if try == 1 || try > 1 && s < least {
			least = s
		}
	}
	return least, c.waitIdle()
}

func (c *nccl) waitIdle() error {
	for _, d := range c.devices {
		if err := d.enter("waiting"); err != nil {
			return err
		}
		err := d.check(d.drv.StreamSync(d.own), "waiting for an all-reduce")
		d.leave()
		if err != nil {
			return err
		}
	}
	return nil
}

// timeWork returns the time in seconds of the work enqueued on d's own stream, at least 1 ns.
func (d *Device) timeWork(from, to eventHandle, work func() error) (float64, error) {
	const doing = "timing an all-reduce"
	if err := d.enter(doing); err != nil {
		return 0, err
	}
	defer d.leave()
	if err := d.check(d.drv.EventRecord(from, d.own), doing); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	// The library may have made another context current.
	r := firstFailure(d.drv.CtxSet(d.ctx), d.drv.EventRecord(to, d.own), d.drv.StreamSync(d.own))
	if r == success {
		r = d.drv.EventElapsed(d.ms, from, to)
	}
	return max(float64(*d.ms)/1e3, 1e-9), d.check(r, doing)
}

func (d *Device) eventPair() (from, to eventHandle, err error) {
	if err := d.enter("making an event"); err != nil {
		return 0, 0, err
	}
	defer d.leave()
	r := firstFailure(d.drv.EventCreate(&from, 0), d.drv.EventCreate(&to, 0))
	return from, to, d.check(r, "making an event")
}

func (d *Device) endEvents(events ...eventHandle) error {
	if d.enter("destroying an event") != nil {
		return nil // the device is lost, which was reported before
	}
	defer d.leave()
	var errs []error
	for _, e := range events {
		errs = append(errs, d.checkRelease(d.drv.EventDestroy(e), "destroying an event"))
	}
	return errors.Join(errs...)
}

// rankMemory allocates the input of a rank, whose value at index k is (rank+1) * (k mod 251). Sums over up to 4,000
// ranks are exact.
func (d *Device) rankMemory(count, rank int) (p devicePtr, free func() error, err error) {
	if p, free, err = d.peerMemory(count*floatBytes, nil); err != nil {
		return 0, nil, err
	}
	err = d.eachBlock(p, count, func(at devicePtr, block []float32) error {
		for k := range block {
			block[k] = float32(rank+1) * float32(k%sumPeriod)
		}
		return d.check(firstFailure(d.drv.CopyToDev(at, unsafe.Pointer(&block[0]), uintptr(len(block)*floatBytes), d.own), d.drv.StreamSync(d.own)), "filling an array")
	})
	if err != nil {
		return 0, nil, errors.Join(err, free())
	}
	return p, free, nil
}

const (
	sumPeriod = 251
	sumBlock  = sumPeriod * 4096
)

// eachBlock calls use for successive blocks of the memory. Each block starts at a multiple of the input's period.
func (d *Device) eachBlock(p devicePtr, count int, use func(devicePtr, []float32) error) error {
	if err := d.enter("copying blocks"); err != nil {
		return err
	}
	defer d.leave()
	block := make([]float32, min(count, sumBlock))
	for at := 0; at < count; at += sumBlock {
		if err := use(p+devicePtr(at*floatBytes), block[:min(sumBlock, count-at)]); err != nil {
			return err
		}
	}
	return nil
}

// checkSum compares the memory with the expected sum over all ranks.
func (d *Device) checkSum(p devicePtr, count, ranks int) error {
	return d.eachBlock(p, count, func(at devicePtr, block []float32) error {
		if err := d.check(firstFailure(d.drv.CopyFromDev(unsafe.Pointer(&block[0]), at, uintptr(len(block)*floatBytes), d.own), d.drv.StreamSync(d.own)), "reading a sum"); err != nil {
			return err
		}
		for k, v := range block {
			if want := float32(ranks*(ranks+1)/2) * float32(k%sumPeriod); v != want {
				return gpuprof.Errorf(gpuprof.ErrDevice, "GPU %d has the sum %g where %g is right", d.is.Index, v, want).WithFix("look for Xid messages in dmesg, and run again with NCCL_P2P_DISABLE=1")
			}
		}
		return nil
	})
}
