package cuda

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// A GPU reports a kernel's fault at some later call and does not say whose it
// was. So every launch leaves the number of the launch in its function, one a
// stream, and a synchronised stream remembers what it had passed: the kernels
// that were in flight are then known exactly, at the cost of two stores a
// launch.

// slots bounds how many streams are told apart; further ones share the last.
const slots = 16

type slot struct {
	stream string
	shared bool
	passed uint64 // launches up to this one are known to have ended well
}

// launchedOn notes a launch of f on s.
func (s *Stream) launchedOn(f *kernelFunc) {
	s.dev.launched++
	f.seen[s.slot] = s.dev.launched
}

// passed notes that everything enqueued on s so far has ended well.
func (s *Stream) passed() {
	if at := &s.dev.slots[s.slot]; !at.shared {
		at.passed = s.dev.launched
	}
}

type suspect struct {
	kernel, stream string
	last           uint64
}

// inFlight lists the kernels that may still have been running, by their last
// launch.
func (d *Device) inFlight() []suspect {
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

// check turns a result into an error. A sticky one loses the device.
func (d *Device) check(r Result, doing string) error {
	switch {
	case r == success:
		return nil
	case d.lost != nil:
		return d.tell()
	case r.sticky():
		d.lose(r, doing)
		return d.tell()
	}
	kind := gpuprof.ErrDevice
	if r == errLibrary || r == errOutOfMemory {
		if err := d.failing(doing); err != nil {
			return err
		}
	}
	switch r {
	case errLibrary:
		return fmt.Errorf("%s: %w", doing, d.libFault)
	case errOutOfMemory:
		kind = gpuprof.ErrMemory
	}
	return r.advice().failure(kind, doing+": "+d.drv.describe(r))
}

// again is check for calls of timed regions, which do not make the context
// current first: one that was refused because the calling thread has none, or
// another device's, is repeated after doing so.
func (d *Device) again(r Result, do func() Result, doing string) error {
	if r == errInvalidContext || r == errInvalidHandle {
		runtime.LockOSThread() // see enter
		defer runtime.UnlockOSThread()
		if r = d.drv.CtxSet(d.ctx); r == success {
			r = do()
		}
	}
	return d.check(r, doing)
}

// failing is the failure of a device that does not work any more, by a question
// that takes nothing. What a dead one answers first may be anything: that memory is
// short, or a library's own status.
func (d *Device) failing(doing string) error {
	if d.lost != nil {
		return d.tell()
	}
	var free uintptr
	if r := d.memInfo(&free); r != success && r != errOutOfMemory {
		return d.check(r, doing)
	}
	return nil
}

// tell is the error of a lost device, which then counts as told.
func (d *Device) tell() error {
	d.told = true
	return d.lost
}

const mostSuspects = 8

// lose ends the use of the device. The advice is the result's own; against a
// kernel's fault with no kernel to blame, and where there is none, it is to look
// at the GPU.
func (d *Device) lose(r Result, doing string) {
	list := d.inFlight()
	a := r.advice()
	what := fmt.Sprintf("%s: %s, with no kernel in flight", doing, d.drv.describe(r))
	if len(list) > 0 {
		what = fmt.Sprintf("%s failed: %s", blamed(list), d.drv.describe(r))
	}
	if a.fix == "" || a == kernelFault && len(list) == 0 {
		a.fix = readXid
	}
	a.fix = "the device must be opened again; " + a.fix
	d.lost = a.failure(gpuprof.ErrDevice, what)
}

// blamed names the suspects, one or more.
func blamed(list []suspect) string {
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
