package cuda

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// A GPU reports a kernel's fault at a later call, without the kernel's name. To find the kernels in flight, every
// launch stores its sequence number in kernelFunc.seen, per stream. Every synchronisation stores the number of the last
// launch that it covers in slot.passed. That costs two stores per launch.

// slots is the number of streams whose launches are tracked separately; all further streams share the last slot.
const slots = 16

type slot struct {
	stream string
	shared bool
	passed uint64 // all launches up to this number have ended without a fault
}

// launchedOn numbers a launch of f on s, and stores the number in f.
func (s *Stream) launchedOn(f *kernelFunc) {
	s.dev.launched++
	f.seen[s.slot] = s.dev.launched
}

// markPassed notes that all work enqueued on s so far has ended without a fault.
func (s *Stream) markPassed() {
	if at := &s.dev.slots[s.slot]; !at.shared {
		at.passed = s.dev.launched
	}
}

type suspect struct {
	kernel, stream string
	last           uint64
}

// listInFlight returns the kernels that may be unfinished, ordered by their last launch.
func (d *Device) listInFlight() []suspect {
	var list []suspect
	for _, f := range d.funcs {
		for i, last := range f.seen {
			if last > d.slots[i].passed {
				list = append(list, suspect{f.kernel.Name, d.slots[i].stream, last})
			}
		}
	}
	slices.SortFunc(list, func(a, b suspect) int { return cmp.Compare(a.last, b.last) })
	return list
}

// check turns the result of a call into an error that begins with doing. A result that destroys the context marks the
// device as lost.
func (d *Device) check(r Result, doing string) error {
	switch {
	case r == success:
		return nil
	case d.lost != nil:
		return d.reportLost()
	case r.isSticky():
		d.markLost(r, doing)
		return d.reportLost()
	}
	kind := gpuprof.ErrDevice
	if r == errLibrary || r == errOutOfMemory {
		if err := d.checkWorking(doing); err != nil {
			return err
		}
	}
	switch r {
	case errLibrary:
		return fmt.Errorf("%s: %w", doing, d.libFault)
	case errOutOfMemory:
		kind = gpuprof.ErrMemory
	}
	return r.lookUpAdvice().newError(kind, doing+": "+d.drv.describeResult(r))
}

// retryWithContext checks r, the result of the call do. A call in a timed region does not make the context current
// first. If the thread had no context, or another device's, retryWithContext sets it and repeats the call once.
func (d *Device) retryWithContext(r Result, do func() Result, doing string) error {
	if r == errInvalidContext || r == errInvalidHandle {
		runtime.LockOSThread() // see enter
		defer runtime.UnlockOSThread()
		if r = d.drv.CtxSet(d.ctx); r == success {
			r = do()
		}
	}
	return d.check(r, doing)
}

// checkWorking returns the failure of a broken device, or nil. It queries the free memory, which allocates nothing.
// The first error of a broken device can be misleading, such as out of memory or a library's own status.
func (d *Device) checkWorking(doing string) error {
	if d.lost != nil {
		return d.reportLost()
	}
	var free uintptr
	if r := d.memInfo(&free); r != success && r != errOutOfMemory {
		return d.check(r, doing)
	}
	return nil
}

// reportLost returns the error of a lost device and notes that the caller has seen it.
func (d *Device) reportLost() error {
	d.lostReported = true
	return d.lost
}

const mostSuspects = 8

// markLost marks the device as lost after the call doing failed with r. The error names the kernels in flight, and its
// fix depends on r. If r has no fix, or is a kernel fault with no kernel in flight, the fix is to read the kernel log.
func (d *Device) markLost(r Result, doing string) {
	list := d.listInFlight()
	a := r.lookUpAdvice()
	what := fmt.Sprintf("%s: %s, with no kernel in flight", doing, d.drv.describeResult(r))
	if len(list) > 0 {
		what = fmt.Sprintf("%s failed: %s", describeSuspects(list), d.drv.describeResult(r))
	}
	if a.fix == "" || a == kernelFault && len(list) == 0 {
		a.fix = readXid
	}
	a.fix = "the device must be opened again; " + a.fix
	d.lost = a.newError(gpuprof.ErrDevice, what)
}

// describeSuspects names the kernels in flight, of which there is at least one.
func describeSuspects(list []suspect) string {
	var names []string
	for _, s := range list[:min(len(list), mostSuspects)] {
		names = append(names, fmt.Sprintf("%s on stream %s", s.kernel, s.stream))
	}
	if len(list) == 1 {
		return "kernel " + names[0]
	}
	who := "one of the kernels " + strings.Join(names, ", ")
	if more := len(list) - len(names); more > 0 {
		who += fmt.Sprintf(" and %d more", more)
	}
	return who
}
