package cupti

import (
	"math"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// form is what is made of a name, by what it names.
type form uint8

const (
	plainForm form = iota
	kernelForm
	callForm
)

type formKey struct {
	id   uint32
	form form
}

// Most bytes of a name, and the power of two that bounds a demangled one.
const (
	maxName     = 8192
	maxNamePow2 = 13
)

func (r *reader) takeNames(k chunk) {
	p := k.payload
	for n := 0; n < k.count && len(p) >= 8; n++ {
		id, size := le.Uint32(p), int64(le.Uint32(p[4:]))
		if p = p[8:]; size > int64(len(p)) {
			return
		}
		text := strings.ToValidUTF8(string(p[:min(size, maxName)]), "\ufffd")
		if old, again := r.names[id]; !again {
			r.bytes += model.TextBytes(text)
		} else if old != text {
			continue // a number has one name in a file
		}
		r.names[id] = text
		p = p[min(int64(len(p)), (size+3)&^3):]
	}
}

// text is the id of a text.
func (r *reader) text(s string) model.NameID {
	id, ok := r.ids[s]
	if !ok {
		id = model.NameID(len(r.t.Names))
		r.ids[s] = id
		r.t.Names = append(r.t.Names, s)
		r.bytes += model.TextBytes(s)
	}
	return id
}

// name is the id of a name of the file, in the form in which it is shown.
func (r *reader) name(id uint32, f form) model.NameID {
	key := formKey{id, f}
	if n, ok := r.byForm[key]; ok {
		return n
	}
	s, ok := r.names[id]
	switch {
	case !ok && f == kernelForm:
		s = "unnamed kernel"
	case !ok && f == callForm:
		s = "unnamed call"
	case f == kernelForm:
		s = demangled(s)
	case f == callForm:
		s = analyze.PlainCall(s)
	}
	n := r.text(s)
	r.byForm[key] = n
	return n
}

// demangled is a C++ or Rust name as its source has it, or the name itself.
func demangled(s string) string {
	if !strings.HasPrefix(s, "_Z") && !strings.HasPrefix(s, "_R") {
		return s
	}
	text, err := demangle.ToString(s, demangle.MaxLength(maxNamePow2))
	if err != nil || len(text) > maxName {
		return s
	}
	return text
}

// ofDriver tells a call of the driver from one of the runtime.
func ofDriver(name string) bool {
	return strings.HasPrefix(name, "cu") && len(name) > 2 && name[2] >= 'A' && name[2] <= 'Z'
}

func clamp(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

// operation fills in what every device operation has; false where it is not kept.
func (r *reader) operation(kind model.Kind, start, end, corr, stream, device uint64) (model.GPU, bool) {
	r.t.Events++
	if !r.keeps(clamp(start)) {
		return model.GPU{}, false
	}
	r.lastTime = max(r.lastTime, clamp(end))
	return model.GPU{Start: clamp(start), End: clamp(end), Kind: kind, Corr: clamp(corr), Stream: clamp(stream), Launch: -1, Process: r.process, Device: r.device(device)}, true
}

func (r *reader) takeKernel(record []byte) {
	f := &r.f.kernel
	g, ok := r.operation(model.Kernel, f.start.of(record), f.end.of(record), f.corr.of(record), f.stream.of(record), f.device.of(record))
	if !ok {
		return
	}
	g.Name = r.name(uint32(f.name.of(record)), kernelForm)
	g.Blocks = product(f.gx.of(record), f.gy.of(record), f.gz.of(record))
	g.Threads = int32(min(product(f.bx.of(record), f.by.of(record), f.bz.of(record)), math.MaxInt32))
	g.Graph = f.graph.of(record) != 0 || f.node.of(record) != 0
	r.t.GPU = append(r.t.GPU, g)
}

// product of three numbers of at most 32 bits each.
func product(x, y, z uint64) int64 {
	if p := x * y; z == 0 || p <= math.MaxInt64/z {
		return int64(p * z)
	}
	return math.MaxInt64
}

// CUPTI's kinds of copies, and of memory.
const (
	copyH2D     = 1
	copyD2H     = 2
	copyH2Array = 3
	copyArray2H = 4
	copyArrays  = 5
	copyA2D     = 6
	copyD2A     = 7
	copyD2D     = 8
	copyH2H     = 9
	copyP2P     = 10
)

var directions = map[uint64]model.Direction{copyH2D: model.H2D, copyD2H: model.D2H, copyH2Array: model.H2D, copyArray2H: model.D2H, copyArrays: model.D2D,
	copyA2D: model.D2D, copyD2A: model.D2D, copyD2D: model.D2D, copyH2H: model.H2H, copyP2P: model.P2P}

var memoryNames = map[uint64]string{1: "Pageable", 2: "Pinned", 3: "Device", 4: "Array", 5: "Managed", 6: "Device Static", 7: "Managed Static"}

func hostMemory(kind uint64) model.HostMemory {
	switch kind {
	case 1:
		return model.Pageable
	case 2:
		return model.Pinned
	}
	return model.UnknownMemory
}

func (r *reader) takeCopy(record []byte) {
	f := &r.f.copy
	g, ok := r.operation(model.Memcpy, f.start.of(record), f.end.of(record), f.corr.of(record), f.stream.of(record), f.device.of(record))
	if !ok {
		return
	}
	from, to := f.from.of(record), f.to.of(record)
	g.Bytes, g.Dir = clamp(f.bytes.of(record)), directions[f.kind.of(record)]
	switch g.Dir {
	case model.H2D:
		g.Memory = hostMemory(from)
	case model.D2H:
		g.Memory = hostMemory(to)
	case model.H2H:
		if g.Memory = hostMemory(from); hostMemory(to) == model.Pageable {
			g.Memory = model.Pageable // the slower end decides
		}
	}
	g.Graph = f.graph.of(record) != 0 || f.node.of(record) != 0
	g.Name = r.text(analyze.CopyText(g.Dir, memoryNames[from], memoryNames[to]))
	r.t.GPU = append(r.t.GPU, g)
}

func (r *reader) takeFill(record []byte) {
	f := &r.f.fill
	g, ok := r.operation(model.Memset, f.start.of(record), f.end.of(record), f.corr.of(record), f.stream.of(record), f.device.of(record))
	if !ok {
		return
	}
	name := "Memset"
	if kind := memoryNames[f.memory.of(record)]; kind != "" {
		name += " (" + kind + ")"
	}
	g.Bytes, g.Name = clamp(f.bytes.of(record)), r.text(name)
	g.Graph = f.graph.of(record) != 0 || f.node.of(record) != 0
	r.t.GPU = append(r.t.GPU, g)
}

// takeGraph takes a graph that was recorded as a whole.
func (r *reader) takeGraph(record []byte) {
	f := &r.f.graph
	g, ok := r.operation(model.Kernel, f.start.of(record), f.end.of(record), f.corr.of(record), f.stream.of(record), f.device.of(record))
	if !ok {
		return
	}
	g.Name, g.Graph = r.text("CUDA graph"), true
	r.graphs++
	r.t.GPU = append(r.t.GPU, g)
}

func (r *reader) takeCall(record []byte) {
	f := &r.f.call
	r.t.Events++
	start := clamp(f.start.of(record))
	name := r.name(uint32(f.name.of(record)), callForm)
	corr := uint32(f.corr.of(record))
	if ofDriver(r.t.Name(name)) {
		r.drivers = true
	} else if corr != 0 {
		r.runtime = append(r.runtime, corr)
	}
	if code := f.result.signed(record); code != 0 && code != 600 { // not ready: how a query says "not yet"
		r.failed++
	}
	if !r.keeps(start) {
		return
	}
	h := model.Host{Start: start, End: clamp(f.end.of(record)), Kind: model.API, Lane: r.lane(uint32(f.thread.of(record))), Corr: int64(corr), Name: name}
	r.lastTime = max(r.lastTime, h.End)
	r.addHost(h)
}

func (r *reader) addHost(h model.Host) { r.t.Host = append(r.t.Host, h) }

// CUPTI's kinds of its own work; 1, what the driver does to compile, is none of it.
var overheadNames = map[uint64]string{2 << 16: "CUPTI buffer flush", 3 << 16: "CUPTI instrumentation", 4 << 16: "CUPTI resource", 5 << 16: "CUPTI lazy function loading", 6 << 16: "CUPTI command buffer full", 7 << 16: "CUPTI activity buffer request"}

func (r *reader) takeOverhead(record []byte) {
	f := &r.f.overhead
	r.t.Events++
	start := f.start.of(record)
	if start == 0 || start > math.MaxInt64 || !r.keeps(int64(start)) {
		return
	}
	name, own := overheadNames[f.kind.of(record)]
	if !own {
		name = "CUDA compiling"
	}
	r.loose = append(r.loose, model.Host{Start: int64(start), End: max(clamp(f.end.of(record)), int64(start)), Kind: model.Overhead, Lane: r.lane(uint32(f.thread.of(record))), Name: r.text(name)})
}

// lane is the index of a thread.
func (r *reader) lane(thread uint32) uint32 {
	i, ok := r.lanes[thread]
	if !ok {
		i = uint32(len(r.t.Lanes))
		r.lanes[thread] = i
		r.t.Lanes = append(r.t.Lanes, model.Lane{Process: r.process, Thread: int64(thread)})
		r.bytes += model.NameBytes
	}
	return i
}

func (r *reader) takeThread(record []byte) {
	f := &r.f.thread
	lane := r.lane(uint32(f.thread.of(record)))
	if name := r.names[uint32(f.name.of(record))]; name != "" {
		r.t.Lanes[lane].Name = name
	}
}

// maxDevices is what GPU.Device can tell apart.
const maxDevices = 1 << 16

// device is the index of a device by the number that the process has for it.
func (r *reader) device(number uint64) uint16 {
	if i, ok := r.devices[number]; ok {
		return i
	}
	if len(r.t.Devices) == maxDevices {
		return maxDevices - 1
	}
	i := uint16(len(r.t.Devices))
	r.devices[number] = i
	// A rank that may use one device alone calls that 0; the machine's number tells ranks apart.
	id := int(min(number, math.MaxInt32))
	if number < uint64(len(r.visible)) {
		id = r.visible[number]
	}
	r.t.Devices = append(r.t.Devices, model.Device{ID: id})
	return i
}

func (r *reader) takeDevice(record []byte) {
	f := &r.f.device
	d := &r.t.Devices[r.device(f.id.of(record))]
	if name := r.names[uint32(f.name.of(record))]; name != "" {
		d.Name = name
	}
	small := func(to *int, v uint64) {
		if v > 0 && v < 1<<20 {
			*to = int(v)
		}
	}
	small(&d.SMs, f.sms.of(record))
	if small(&d.Major, f.major.of(record)); d.Major > 0 {
		small(&d.Minor, f.minor.of(record))
	}
	d.TotalBytes = clamp(f.memory.of(record))
	d.PeakBytesPerS = float64(f.bandwidth.of(record)) * 1000
}
