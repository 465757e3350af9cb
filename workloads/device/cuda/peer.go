package cuda

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/gpuprof/gpuprof"
)

// PeerLink describes the link between two GPUs' memories.
type PeerLink struct {
	// Direct means that the GPUs access each other's memory over NVLink or PCIe; otherwise copies go through host memory.
	Direct    bool
	BytesPerS float64
}

// peerCheck is the number of bytes compared at each end of a copy between two GPUs.
const peerCheck = 64 << 10

// MeasurePeer copies n bytes from one device's memory to another's and returns the fastest of tries, after one
// warm-up. It poisons the destination before and checks both of its ends after. Both devices must be idle, and opened
// by the calling goroutine.
func MeasurePeer(ctx context.Context, from, to *Device, n, tries int) (link PeerLink, err error) {
	doing := fmt.Sprintf("copying from GPU %d to GPU %d", from.is.Index, to.is.Index)
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", doing, err)
		}
	}()
	if from == to || n < 2*peerCheck || tries < 1 {
		return link, gpuprof.Errorf(gpuprof.ErrUsage, "%d bytes, %d tries", n, tries).WithFix("name two devices, at least %d bytes and one try", 2*peerCheck)
	}
	if from.drv.CopyPeer == nil || from.drv.CanAccess == nil || from.drv.EnablePeer == nil || from.drv.DisablePeer == nil {
		return link, gpuprof.Errorf(gpuprof.ErrDevice, "this driver has no function for it").WithFix(newDriver)
	}
	want := testPattern(peerCheck)
	dst, freeDst, err := to.peerMemory(n, nil)
	if err != nil {
		return link, err
	}
	defer func() { err = errors.Join(err, freeDst()) }()
	src, freeSrc, err := from.peerMemory(n, want)
	if err != nil {
		return link, err
	}
	defer func() { err = errors.Join(err, freeSrc()) }()
	if link, err = from.pushTo(ctx, to, dst, src, uintptr(n), tries); err != nil {
		return link, err
	}
	return link, to.checkArrived(dst, n, want)
}

// peerMemory allocates n bytes outside the pool, so that a peer can access them. It copies the argument ends to the
// first and the last bytes; if ends is nil, it fills all bytes with a value that testPattern does not give.
func (d *Device) peerMemory(n int, ends []byte) (p devicePtr, free func() error, err error) {
	const doing = "making room"
	if err := d.enter(doing); err != nil {
		return 0, nil, err
	}
	defer d.leave()
	if err := d.check(d.drv.MemAlloc(&p, uintptr(n)), doing); err != nil {
		return 0, nil, err
	}
	free = func() error {
		if d.enter("freeing the room") != nil {
			return nil // the device is lost, which was reported before
		}
		defer d.leave()
		return d.check(d.drv.MemFree(p), "freeing the room")
	}
	r := d.drv.Memset8(p, 0xff, uintptr(n), d.own)
	if len(ends) > 0 {
		for _, at := range []devicePtr{p, p + devicePtr(n-len(ends))} {
			r = firstFailure(r, d.drv.CopyToDev(at, unsafe.Pointer(&ends[0]), uintptr(len(ends)), d.own))
		}
	}
	if err := d.check(firstFailure(r, d.drv.StreamSync(d.own)), doing); err != nil {
		return 0, nil, errors.Join(err, free())
	}
	return p, free, nil
}

// pushTo times copies from d's memory at src to the other device's at dst, on d's own stream.
func (d *Device) pushTo(ctx context.Context, to *Device, dst, src devicePtr, n uintptr, tries int) (link PeerLink, err error) {
	if err := d.enter("copying"); err != nil {
		return link, err
	}
	defer d.leave()
	var can int32
	if err := d.check(d.drv.CanAccess(&can, d.is.handle, to.is.handle), "asking for the way"); err != nil {
		return link, err
	}
	if can != 0 {
		switch r := d.drv.EnablePeer(to.ctx, 0); r {
		case success:
			link.Direct = true
			defer func() { err = errors.Join(err, d.checkRelease(d.drv.DisablePeer(to.ctx), "giving up the access")) }()
		case errPeersEnabled:
			link.Direct = true
		case errNoPeers, errTooManyPeers: // the driver copies through host memory
		default:
			return link, d.check(r, "getting access")
		}
	}
	m := &streamTimer{d: d, ctx: ctx}
	defer m.close()
	ns, err := m.timeBest(tries, func(s streamHandle) Result { return d.drv.CopyPeer(dst, to.ctx, src, d.ctx, n, s) })
	if err != nil {
		return link, err
	}
	link.BytesPerS = float64(n) / gpuprof.Seconds(int64(ns))
	return link, nil
}

// checkArrived compares both ends of the copy with want.
func (d *Device) checkArrived(p devicePtr, n int, want []byte) error {
	const doing = "comparing what arrived"
	if err := d.enter(doing); err != nil {
		return err
	}
	defer d.leave()
	got := make([]byte, len(want))
	for _, at := range []devicePtr{p, p + devicePtr(n-len(want))} {
		if err := d.check(firstFailure(d.drv.CopyFromDev(unsafe.Pointer(&got[0]), at, uintptr(len(got)), d.own), d.drv.StreamSync(d.own)), doing); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return gpuprof.Errorf(gpuprof.ErrDevice, "other bytes arrived than were sent").WithFix("look for Xid messages in dmesg, and test the link with nvidia-smi nvlink -s; on virtual machines, check the IOMMU and ACS settings")
		}
	}
	return nil
}

// testPattern returns n bytes that do not repeat within a page.
func testPattern(n int) []byte {
	out, x := make([]byte, n), uint32(0x9e3779b9)
	for i := range out {
		x ^= x << 13 // xorshift32, Marsaglia 2003
		x ^= x >> 17
		x ^= x << 5
		out[i] = byte(x >> 11)
	}
	return out
}
