package nvml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gpuprof/gpuprof"
)

// Library is a loaded and started NVML. The zero value and nil are closed.
type Library struct {
	// mu is the gate. Calls hold it for reading and Close for writing, so that no call runs during or after Close.
	mu   sync.RWMutex
	sys  system
	gpus []gpu // by index, in NVML's order
}

// Open loads and starts NVML. The error is an ErrDevice that names the missing part (library, kernel module,
// permission) and the fix.
func Open() (*Library, error) { return openPath("") }

func openPath(path string) (*Library, error) {
	sys, err := openSystem(path)
	if err != nil {
		return nil, err
	}
	return openLibrary(sys)
}

func openLibrary(sys system) (*Library, error) {
	l := &Library{sys: sys}
	n, err := sys.deviceCount()
	if err != nil {
		_ = sys.shutdown() // report the failed count instead
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "counting GPUs: %w", err).WithFix("check that nvidia-smi works for this user")
	}
	for i := range n {
		g, err := sys.openGPU(i)
		if err != nil { // a lost or forbidden GPU does not hide the others
			g = broken{err}
		}
		l.gpus = append(l.gpus, g)
	}
	return l, nil
}

// Close stops NVML after running calls have ended. It may be called twice.
func (l *Library) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sys == nil {
		return nil
	}
	err := l.sys.shutdown()
	l.sys, l.gpus = nil, nil
	if err != nil {
		return gpuprof.Errorf(gpuprof.ErrDevice, "stopping NVML: %w", err).WithFix("nothing depends on it any more")
	}
	return nil
}

// enter passes the gate; false if the library is closed. After true, leave must follow.
func (l *Library) enter() bool {
	if l == nil {
		return false
	}
	l.mu.RLock()
	if l.sys == nil {
		l.mu.RUnlock()
		return false
	}
	return true
}

func (l *Library) leave() { l.mu.RUnlock() }

// gated is a GPU whose calls pass the gate.
type gated struct {
	lib *Library
	gpu gpu
}

func (g gated) readNumber(q quantity) (float64, error) {
	if g.gpu == nil || !g.lib.enter() {
		return 0, errClosed
	}
	defer g.lib.leave()
	return g.gpu.readNumber(q)
}

// readFields fills f; after Close all fields are unknown.
func (g gated) readFields(f []field) {
	for i := range f {
		f[i].value, f[i].ok, f[i].err = 0, false, errClosed
	}
	if g.gpu == nil || !g.lib.enter() {
		return
	}
	defer g.lib.leave()
	g.gpu.readFields(f)
}

func (g gated) listProcesses() ([]Process, error) {
	if g.gpu == nil || !g.lib.enter() {
		return nil, errClosed
	}
	defer g.lib.leave()
	return g.gpu.listProcesses()
}

func (g gated) nearCPUs(cpus int) ([]uint, error) {
	if g.gpu == nil || !g.lib.enter() {
		return nil, errClosed
	}
	defer g.lib.leave()
	return g.gpu.nearCPUs(cpus)
}

// Device returns the GPU or MIG instance of a name. A name is NVML's index ("0"), a GPU and an instance index ("0:1"),
// the beginning of a UUID, a PCI bus id, or the profile of a MIG instance ("1g.10gb"). A UUID may lack the prefix GPU-
// or MIG-. The error is an ErrDevice that lists the devices. ThrottledS counts from this call.
func (l *Library) Device(name string) (*Device, error) {
	list := l.Devices()
	at, err := Select(list, name)
	if err != nil {
		return nil, err
	}
	if !l.enter() {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "telemetry of %s: %w", name, errClosed).WithFix("open it again")
	}
	whole, part := gated{l, l.gpus[at.GPU]}, gated{}
	if at.Instance >= 0 {
		var parts []gpu
		if parts, err = l.gpus[at.GPU].listInstances(); err == nil && at.Instance < len(parts) {
			part = gated{l, parts[at.Instance]}
		} else if err == nil {
			err = errUnsupported // the device disappeared after the listing
		}
	}
	l.leave()
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "telemetry of %s: %w", name, err).WithFix("try again")
	}
	return newDevice(whole, part, list[at.GPU], at.Instance), nil
}

// Place is the position of a device: GPU is an index into a list of DeviceInfo. Instance is an index into that GPU's
// Instances, or -1 for the whole GPU.
type Place struct{ GPU, Instance int }

// Select finds the device of a name, as Library.Device does.
func Select(list []DeviceInfo, name string) (Place, error) {
	want := strings.ToLower(strings.TrimSpace(name))
	if at, ok, err := parseIndex(list, want); ok || err != nil {
		return at, err
	}
	var found []Place
	for _, match := range []func(id, title, bus string) bool{
		func(id, _, _ string) bool { return isPrefix(id, want) },
		func(_, _, bus string) bool { return bus != "" && busID(bus) == busID(want) },
		func(_, title, _ string) bool { return title != "" && strings.TrimPrefix(want, "mig ") == title },
	} {
		for i, d := range list {
			if match(d.UUID, "", d.PCI) {
				found = append(found, Place{i, -1})
			}
			for j, p := range d.Instances {
				if match(p.UUID, strings.ToLower(p.Profile), "") {
					found = append(found, Place{i, j})
				}
			}
		}
		if len(found) > 0 {
			break
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return Place{}, gpuprof.Errorf(gpuprof.ErrDevice, "choosing device %s: it fits %d of %s", name, len(found), joinDevices(list)).WithFix("give more of the UUID")
	}
	return Place{}, gpuprof.Errorf(gpuprof.ErrDevice, "choosing device %s: this machine shows %s", name, joinDevices(list)).WithFix("choose one of them")
}

// parseIndex parses "0" and "0:1"; ok is false for other texts.
func parseIndex(list []DeviceInfo, want string) (at Place, ok bool, err error) {
	whole, part, both := strings.Cut(want, ":")
	i, err1 := strconv.Atoi(whole)
	j, err2 := strconv.Atoi(part)
	// A PCI address contains a colon too, but its numbers have more digits.
	if err1 != nil || len(whole) > 3 || both && (err2 != nil || len(part) > 2) {
		return at, false, nil
	}
	if !both {
		j = -1
	}
	k := slices.IndexFunc(list, func(d DeviceInfo) bool { return d.Index == i })
	if k < 0 || both && (j < 0 || j >= len(list[k].Instances)) {
		return at, false, gpuprof.Errorf(gpuprof.ErrDevice, "choosing device %s: this machine shows %s", want, joinDevices(list)).WithFix("choose one of them")
	}
	return Place{k, j}, true, nil
}

// isPrefix reports whether want begins the UUID id. It needs at least four digits, since fewer match by chance.
func isPrefix(id, want string) bool {
	id = strings.ToLower(id)
	bare := id
	for _, p := range []string{"gpu-", "mig-"} {
		bare = strings.TrimPrefix(bare, p)
		if rest, ok := strings.CutPrefix(want, p); ok {
			return len(rest) >= 4 && strings.HasPrefix(id, want)
		}
	}
	return len(want) >= 4 && strings.HasPrefix(bare, want)
}

// busID returns a PCI bus id without leading zeros of the domain.
func busID(id string) string { return strings.TrimLeft(strings.ToLower(id), "0:") }

func joinDevices(list []DeviceInfo) string {
	var s []string
	for _, d := range list {
		s = append(s, fmt.Sprintf("%d (%s, %s)", d.Index, d.Name, d.UUID))
		for _, p := range d.Instances {
			s = append(s, fmt.Sprintf("%d:%d (MIG %s, %s)", d.Index, p.Index, p.Profile, p.UUID))
		}
	}
	if len(s) == 0 {
		return "no GPU"
	}
	return strings.Join(s, ", ")
}

// broken is a GPU that NVML counts but gives no handle for.
type broken struct{ err error }

func (b broken) name() (string, error)                { return "", b.err }
func (b broken) uuid() (string, error)                { return "", b.err }
func (b broken) pci() (string, error)                 { return "", b.err }
func (b broken) readNumber(quantity) (float64, error) { return 0, b.err }
func (b broken) readFields(f []field) {
	for i := range f {
		f[i].err = b.err
	}
}
func (b broken) listProcesses() ([]Process, error)    { return nil, b.err }
func (b broken) listInstances() ([]gpu, error)        { return nil, b.err }
func (b broken) instanceIDs() (gi, ci int, err error) { return 0, 0, b.err }
func (b broken) nearCPUs(int) ([]uint, error)         { return nil, b.err }
