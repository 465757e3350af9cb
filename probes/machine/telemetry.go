package machine

import (
	"bytes"
	"context"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
)

// capacity is how many readings a track holds: two minutes at 10 Hz. A longer
// run keeps every second reading and goes on at half the rate.
const capacity = 1200

// track is one quantity while it is sampled. read must not allocate: a
// sampler that wakes the garbage collector disturbs what it watches.
type track struct {
	name, unit string
	read       func() (float64, bool)
	total      bool // count from the start of the sampling
	first      float64
	ok         bool // every reading so far worked
	values     []gpuprof.Number
}

// Telemetry samples the process and the machine in a goroutine of its own.
type Telemetry struct {
	tracks []*track
	times  []float64
	files  []io.Closer
	start  time.Time
	stop   context.CancelFunc
	done   chan struct{}
	usage  usage
}

// Start samples this process until Stop, or until ctx ends, reading machine m's files.
func (m Machine) Start(ctx context.Context, interval time.Duration) *Telemetry {
	t := &Telemetry{start: time.Now(), done: make(chan struct{}), times: make([]float64, 0, capacity)}
	t.addUsage()
	t.addFiles(m)
	t.sample()
	ctx, t.stop = context.WithCancel(ctx)
	go t.loop(ctx, interval)
	return t
}

func (t *Telemetry) add(name, unit string, total bool, read func() (float64, bool)) {
	t.tracks = append(t.tracks, &track{name: name, unit: unit, read: read, total: total, ok: true, values: make([]gpuprof.Number, 0, capacity)})
}

// addFiles adds what is read from files that stay open.
func (t *Telemetry) addFiles(m Machine) {
	page := float64(os.Getpagesize())
	t.addFile(m, "proc/self/statm", "rss", "B", false, func(b []byte) (float64, bool) {
		return firstInteger(skipField(b), page)
	})
	t.addFile(m, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "cpu_frequency", "Hz", false, func(b []byte) (float64, bool) {
		return firstInteger(b, 1e3)
	})
	// Of the whole machine: where this process may use part of it only, it says nothing.
	if m.cpus() == runtime.NumCPU() {
		t.addFile(m, "proc/stat", "cpu_idle", "s", true, idleOf)
	}
	if name, key, unit, ok := m.throttleFile(); ok {
		prefix := []byte(key + " ")
		t.addFile(m, name, "throttled", "s", true, func(b []byte) (float64, bool) {
			i := bytes.Index(b, prefix)
			if i < 0 {
				return 0, false
			}
			return firstInteger(b[i+len(prefix):], unit)
		})
	}
}

// clockTick is the unit of /proc/stat in seconds: USER_HZ is 100 on every
// architecture that Go runs on (proc(5), time(7)).
const clockTick = 0.01

// cpus counts the CPUs of /proc/stat; 0 where it cannot be read.
func (m Machine) cpus() int {
	s, err := m.text("proc/stat")
	if err != nil {
		return 0
	}
	n := 0
	for line := range strings.Lines(s) {
		if rest, ok := strings.CutPrefix(line, "cpu"); ok && rest[0] != ' ' {
			n++
		}
	}
	return n
}

// idleOf is how long all CPUs idled, in seconds: the fields idle and iowait of the
// first line of /proc/stat, "cpu  user nice system idle iowait ...".
func idleOf(b []byte) (float64, bool) {
	if !bytes.HasPrefix(b, []byte("cpu ")) {
		return 0, false
	}
	sum := 0.0
	for field := range 5 {
		b = bytes.TrimLeft(skipField(b), " ")
		v, ok := firstInteger(b, clockTick)
		if !ok {
			return 0, false
		}
		if field >= 3 {
			sum += v
		}
	}
	return sum, true
}

// addFile adds a track of a file that can be opened and read again and again.
func (t *Telemetry) addFile(m Machine, file, name, unit string, total bool, parse func([]byte) (float64, bool)) {
	f, err := m.fsys.Open(file)
	if err != nil {
		return
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		_ = f.Close() // only opened
		return
	}
	t.files = append(t.files, f)
	buf := make([]byte, 4096)
	t.add(name, unit, total, func() (float64, bool) {
		n, err := at.ReadAt(buf, 0)
		if n == 0 || err != nil && err != io.EOF {
			return 0, false
		}
		return parse(buf[:n])
	})
}

func skipField(b []byte) []byte {
	i := bytes.IndexByte(b, ' ')
	if i < 0 {
		return nil
	}
	return b[i+1:]
}

// firstInteger reads the digits that b begins with, times unit.
func firstInteger(b []byte, unit float64) (float64, bool) {
	n, i := 0.0, 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		n = 10*n + float64(b[i]-'0')
		i++
	}
	return n * unit, i > 0
}

func (t *Telemetry) loop(ctx context.Context, interval time.Duration) {
	defer close(t.done)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if len(t.times) == capacity {
			t.thin()
			interval *= 2
			tick.Reset(interval)
		}
		t.sample()
	}
}

// sample takes one reading of every track.
func (t *Telemetry) sample() {
	usageOK := t.usage.read()
	first := len(t.times) == 0
	t.times = append(t.times, time.Since(t.start).Seconds())
	for _, tr := range t.tracks {
		v, ok := tr.read()
		tr.ok = tr.ok && ok && usageOK
		if first {
			tr.first = v
		}
		if tr.total {
			v -= tr.first
		}
		tr.values = append(tr.values, gpuprof.Number(v))
	}
}

// thin keeps every second reading, in place.
func (t *Telemetry) thin() {
	half := len(t.times) / 2
	for i := range half {
		t.times[i] = t.times[2*i]
		for _, tr := range t.tracks {
			tr.values[i] = tr.values[2*i]
		}
	}
	t.times = t.times[:half]
	for _, tr := range t.tracks {
		tr.values = tr.values[:half]
	}
}

// Stop ends the sampling, takes a last reading and returns the tracks by
// name. A quantity that could not be read throughout is absent. Call it once.
func (t *Telemetry) Stop() map[string]gpuprof.Track {
	t.stop()
	<-t.done
	if len(t.times) < capacity {
		t.sample()
	}
	for _, f := range t.files {
		_ = f.Close() // only read
	}
	out := map[string]gpuprof.Track{}
	for _, tr := range t.tracks {
		if tr.ok {
			out[tr.name] = gpuprof.Track{Unit: tr.unit, TimeS: t.times, Value: tr.values}
		}
	}
	return out
}
