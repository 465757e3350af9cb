package op

import (
	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Need returns the largest number of bytes that open holds at the same time on a device like d: device memory on a GPU,
// all memory on the host. It calls open with a stand-in for d whose buffers have a length but no bytes, and whose
// streams run nothing. So the code that allocates a session's memory also counts it. If open fails, Need returns the
// bytes up to the error.
func Need(d device.Device, open func(device.Device) error) (bytes int64, err error) {
	c := &counter{Device: d, host: d.Info().Kind == "host"}
	err = open(c)
	return c.peak, err
}

// Counts reports whether d is Need's stand-in, for which no values have to be drawn.
func Counts(d device.Device) bool {
	_, is := d.(*counter)
	return is
}

// counter is a device that counts the bytes of its buffers and does nothing else.
type counter struct {
	device.Device
	host      bool // counts host memory too
	now, peak int64
}

type countedBuffer struct {
	c     *counter
	place device.Place
	bytes int
}

func (b *countedBuffer) Place() device.Place { return b.place }
func (b *countedBuffer) Len() int            { return b.bytes }
func (b *countedBuffer) Bytes() []byte       { return nil }
func (b *countedBuffer) Addr() uint64        { return 0 }

func (b *countedBuffer) Free() error {
	b.c.add(b.place, -b.bytes)
	return nil
}

func (c *counter) add(p device.Place, bytes int) {
	if c.host || p == device.OnDevice {
		c.now += int64(bytes)
		c.peak = max(c.peak, c.now)
	}
}

func (c *counter) Alloc(bytes int, p device.Place) (device.Buffer, error) {
	c.add(p, bytes)
	return &countedBuffer{c, p, bytes}, nil
}

func (c *counter) Load(k *device.Kernel) (device.Func, error)             { return unloaded{k}, nil }
func (c *counter) NewStream(string) (device.Stream, error)                { return idle{}, nil }
func (c *counter) NewEvent() (device.Event, error)                        { return idle{}, nil }
func (c *counter) Capture(device.Stream, func() error) (device.Op, error) { return idle{}, nil }
func (c *counter) SetThreads(int) error                                   { return nil }
func (c *counter) Libraries() map[string]string                           { return loadLibraries(c.Device).Facts }
func (c *counter) BindGRU(device.GRUSpec, buf, buf, buf, buf, buf) (device.Op, error) {
	return idle{}, nil
}

// ElapsedNS returns a shorter time if more memory is in use. So a search for the fastest candidate keeps the candidate
// that needs most memory.
func (c *counter) ElapsedNS(_, _ device.Event) (int64, error) { return -c.now, nil }

type buf = device.Buffer

type unloaded struct{ kernel *device.Kernel }

func (u unloaded) Kernel() *device.Kernel { return u.kernel }

// idle is the stream, the event and the operation of a counter: it does nothing.
type idle struct{}

func (idle) Launch(device.Func, int, *device.Args) error { return nil }
func (idle) Copy(buf, int, buf, int, int) error          { return nil }
func (idle) Record(device.Event) error                   { return nil }
func (idle) WaitFor(device.Event) error                  { return nil }
func (idle) Sync() error                                 { return nil }
func (idle) Close() error                                { return nil }
func (idle) Done() (bool, error)                         { return true, nil }
func (idle) Wait() error                                 { return nil }
func (idle) Enqueue(device.Stream) error                 { return nil }
func (idle) Parts() []gpuprof.Part                       { return nil }
