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
	"github.com/gpuprof/gpuprof/probes/sampler"
)

// Telemetry samples the process and the machine.
type Telemetry struct {
	quantities []sampler.Quantity
	files      []io.Closer
	usage      usage
	sampler    *sampler.Sampler
}

// Start samples this process and machine m until Stop, or until ctx ends.
func (m Machine) Start(ctx context.Context, interval time.Duration) *Telemetry {
	t := m.newTelemetry()
	t.sampler = sampler.Start(ctx, interval, t.quantities)
	return t
}

// newTelemetry returns the quantities of this process and of machine m.
func (m Machine) newTelemetry() *Telemetry {
	t := &Telemetry{}
	t.addUsage()
	t.addFiles(m)
	return t
}

func (t *Telemetry) add(name, unit string, total bool, read func() (float64, bool)) {
	t.quantities = append(t.quantities, sampler.Quantity{Name: name, Unit: unit, Total: total, Read: read})
}

// addFiles adds the quantities read from files that stay open.
func (t *Telemetry) addFiles(m Machine) {
	page := float64(os.Getpagesize())
	t.addFile(m, "proc/self/statm", "rss", "B", false, func(b []byte) (float64, bool) {
		return firstInteger(skipField(b), page)
	})
	t.addFile(m, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "cpu_frequency", "Hz", false, func(b []byte) (float64, bool) {
		return firstInteger(b, 1e3)
	})
	// For a process limited to some CPUs, the machine's idle time is meaningless.
	if m.countCPUs() == runtime.NumCPU() {
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

// clockTick is the unit of /proc/stat in seconds: USER_HZ is 100 on all of Go's architectures (proc(5), time(7)).
const clockTick = 0.01

func (m Machine) countCPUs() int {
	s, err := m.readText("proc/stat")
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

// idleOf returns the idle time of all CPUs in seconds, idle plus iowait in the first line of /proc/stat: "cpu  user
// nice system idle iowait ...".
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

// addFile adds a quantity from a file that stays open and is read repeatedly.
func (t *Telemetry) addFile(m Machine, file, name, unit string, total bool, parse func([]byte) (float64, bool)) {
	f, err := m.fsys.Open(file)
	if err != nil {
		return
	}
	at, ok := f.(io.ReaderAt)
	if !ok {
		_ = f.Close() // nothing was written
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

// firstInteger returns the number at the start of b, multiplied by unit.
func firstInteger(b []byte, unit float64) (float64, bool) {
	n, i := 0.0, 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		n = 10*n + float64(b[i]-'0')
		i++
	}
	return n * unit, i > 0
}

// Stop ends the sampling after a last reading and returns the tracks by name. Call it once.
func (t *Telemetry) Stop() map[string]gpuprof.Track {
	tracks := t.sampler.Stop()
	for _, f := range t.files {
		_ = f.Close() // nothing was written
	}
	return tracks
}
