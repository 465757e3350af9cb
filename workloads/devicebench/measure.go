package devicebench

import (
	"errors"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

func (b *bench) measureCopies() error {
	c, err := b.dev.Ceilings(b.ctx)
	if err != nil {
		return err
	}
	if !(c.CopyBytesPerS > 0) {
		b.card.SetUnknown("copy", "too little device memory is free to copy past the cache; stop the other programs on the GPU")
		return nil
	}
	b.card.Set("copy", c.CopyBytesPerS)
	return nil
}

// emptyKernel returns a kernel that does nothing. A CUDA device runs its own kernel of this name instead.
func emptyKernel() *device.Kernel {
	return &device.Kernel{Name: "null", Serial: true, Host: func(*device.Args, int, int) {}}
}

// launchTries is the number of single launches that are timed.
const launchTries = 200

// measureLaunches measures the time of a launch of an empty kernel, the interval of such launches back to back, and the
// time between two events with nothing in between.
func (b *bench) measureLaunches() error {
	f, err := b.dev.Load(emptyKernel())
	if err != nil {
		return err
	}
	var args device.Args
	var took []float64
	for range min(launchTries, b.o.Launches) {
		begin := time.Now()
		if err := b.stream.Launch(f, 1, &args); err != nil {
			return err
		}
		if err := b.stream.Sync(); err != nil {
			return err
		}
		took = append(took, time.Since(begin).Seconds())
	}
	b.card.Set("launch", upperMedian(took)) // not the least: single launches vary both ways
	total, err := b.leastTime(func() error {
		for range b.o.Launches {
			if err := b.stream.Launch(f, 1, &args); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.card.Set("launch_interval", total/float64(b.o.Launches))
	pair, err := b.leastTime(func() error { return nil })
	if err != nil {
		return err
	}
	b.card.Set("event_pair", pair)
	return nil
}

// measureLink measures copies between host and device in both directions, with pinned and pageable memory, by the
// host's clock: events cannot include a driver's staging of pageable memory.
func (b *bench) measureLink() error {
	if in := b.target.Instruments; in != nil {
		in.Resume() // read the link's state now: an idle link is slower
		defer in.Pause()
	}
	n := b.o.LinkBytes
	if room := b.dev.Memory().Available / 4; int64(n) > room {
		n = int(room)
	}
	if n < 1<<12 {
		return device.Short(b.dev, gpuprof.Errorf(gpuprof.ErrMemory, "%s of device memory available", gpuprof.FormatBytes(float64(b.dev.Memory().Available))).WithFix("free some"))
	}
	mark := b.mark()
	onDevice, err := b.allocate(n, device.OnDevice)
	if err != nil {
		return err
	}
	for _, place := range []device.Place{device.Pinned, device.Pageable} {
		host, err := b.allocate(n, place)
		if err != nil {
			return err
		}
		fillRandom(host.Bytes())
		for _, way := range []struct {
			name     string
			dst, src device.Buffer
		}{{"h2d_", onDevice, host}, {"d2h_", host, onDevice}} {
			s, err := b.leastHostTime(func() error { return b.stream.Copy(way.dst, 0, way.src, 0, n) })
			if err != nil {
				return err
			}
			b.card.Set(way.name+place.String(), float64(n)/s)
		}
	}
	return b.release(mark)
}

// leastHostTime returns the shortest seconds until enqueued work is done, by the host's clock, after a warm-up.
func (b *bench) leastHostTime(enqueue func() error) (float64, error) {
	return b.leastOf(func() (time.Duration, error) {
		begin := time.Now()
		err := errors.Join(enqueue(), b.stream.Sync())
		return time.Since(begin), err
	})
}

// fillRandom fills memory with bits that are numbers of both signs and magnitudes from 0.5 to 2, in float32 and
// bfloat16. Products of zeros draw less power, and the power of products of NaN is unknown.
func fillRandom(p []byte) {
	x := uint64(0x9e3779b97f4a7c15)
	for i := 0; i+4 <= len(p); i += 4 {
		// xorshift64, Marsaglia 2003
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		v := uint32(x >> 32)
		// Each 16-bit half keeps its random sign and gets exponent 126 or 127: 0x3f00 to 0x3fff, or 0xbf00 to 0xbfff.
		v = v&0x80ff80ff | 0x3f003f00
		p[i], p[i+1], p[i+2], p[i+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
	}
}
