package cupti

import (
	"math"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// nameForm is the way in which a recorded string becomes a name.
type nameForm uint8

const (
	plainForm nameForm = iota
	kernelForm
	callForm
)

type formKey struct {
	id   uint32
	form nameForm
}

// maxName limits a name, bytes; maxNamePow2 is the same limit of a demangled name, as a power of two.
const (
	maxName     = 8192
	maxNamePow2 = 13
)

func (r *reader) readNames(k chunk) {
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
			continue // a number has one name per file
		}
		r.names[id] = text
		p = p[min(int64(len(p)), (size+3)&^3):]
	}
}

func (r *reader) internText(s string) model.NameID {
	id, ok := r.ids[s]
	if !ok {
		id = model.NameID(len(r.t.Names))
		r.ids[s] = id
		r.t.Names = append(r.t.Names, s)
		r.bytes += model.TextBytes(s)
	}
	return id
}

// nameID returns the id of a name in the file, converted for display.
func (r *reader) nameID(id uint32, f nameForm) model.NameID {
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
		s = demangleName(s)
	case f == callForm:
		s = analyze.PlainCall(s)
	}
	n := r.internText(s)
	r.byForm[key] = n
	return n
}

// demangleName returns the source form of a C++ or Rust name, else the name itself.
func demangleName(s string) string {
	if !strings.HasPrefix(s, "_Z") && !strings.HasPrefix(s, "_R") {
		return s
	}
	text, err := demangle.ToString(s, demangle.MaxLength(maxNamePow2))
	if err != nil || len(text) > maxName {
		return s
	}
	return text
}

// isDriverCall reports whether a call belongs to the driver API, not to the runtime API.
func isDriverCall(name string) bool {
	return strings.HasPrefix(name, "cu") && len(name) > 2 && name[2] >= 'A' && name[2] <= 'Z'
}

func clampInt64(v uint64) int64 { return int64(min(v, math.MaxInt64)) }

// newOperation makes a device operation from the fields that all of them share. ok is false if the operation is not
// kept.
func (r *reader) newOperation(kind model.Kind, start, end, corr, stream, device uint64) (model.GPU, bool) {
	r.t.Events++
	if !r.isKept(clampInt64(start)) {
		return model.GPU{}, false
	}
	r.lastTime = max(r.lastTime, clampInt64(end))
	return model.GPU{Start: clampInt64(start), End: clampInt64(end), Kind: kind, Corr: clampInt64(corr), Stream: clampInt64(stream), Launch: -1, Process: r.process, Device: r.deviceIndex(device)}, true
}

func (r *reader) readKernel(record []byte) {
	f := &r.f.kernel
	g, ok := r.newOperation(model.Kernel, f.start.valueIn(record), f.end.valueIn(record), f.corr.valueIn(record), f.stream.valueIn(record), f.device.valueIn(record))
	if !ok {
		return
	}
	g.Name = r.nameID(uint32(f.name.valueIn(record)), kernelForm)
	g.Blocks = saturatingProduct(f.gx.valueIn(record), f.gy.valueIn(record), f.gz.valueIn(record))
	g.Threads = int32(min(saturatingProduct(f.bx.valueIn(record), f.by.valueIn(record), f.bz.valueIn(record)), math.MaxInt32))
	g.Graph = f.graph.valueIn(record) != 0 || f.node.valueIn(record) != 0
	r.t.GPU = append(r.t.GPU, g)
}

// saturatingProduct returns the product of three 32-bit numbers, at most the largest int64.
func saturatingProduct(x, y, z uint64) int64 {
	if p := x * y; z == 0 || p <= math.MaxInt64/z {
		return int64(p * z)
	}
	return math.MaxInt64
}

// CUPTI's kinds of copies and of memory.
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

func (r *reader) readCopy(record []byte) {
	f := &r.f.copy
	g, ok := r.newOperation(model.Memcpy, f.start.valueIn(record), f.end.valueIn(record), f.corr.valueIn(record), f.stream.valueIn(record), f.device.valueIn(record))
	if !ok {
		return
	}
	from, to := f.from.valueIn(record), f.to.valueIn(record)
	g.Bytes, g.Dir = clampInt64(f.bytes.valueIn(record)), directions[f.kind.valueIn(record)]
	switch g.Dir {
	case model.H2D:
		g.Memory = hostMemory(from)
	case model.D2H:
		g.Memory = hostMemory(to)
	case model.H2H:
		if g.Memory = hostMemory(from); hostMemory(to) == model.Pageable {
			g.Memory = model.Pageable // the slower memory decides
		}
	}
	g.Graph = f.graph.valueIn(record) != 0 || f.node.valueIn(record) != 0
	g.Name = r.internText(analyze.CopyText(g.Dir, memoryNames[from], memoryNames[to]))
	r.t.GPU = append(r.t.GPU, g)
}

func (r *reader) readFill(record []byte) {
	f := &r.f.fill
	g, ok := r.newOperation(model.Memset, f.start.valueIn(record), f.end.valueIn(record), f.corr.valueIn(record), f.stream.valueIn(record), f.device.valueIn(record))
	if !ok {
		return
	}
	name := "Memset"
	if kind := memoryNames[f.memory.valueIn(record)]; kind != "" {
		name += " (" + kind + ")"
	}
	g.Bytes, g.Name = clampInt64(f.bytes.valueIn(record)), r.internText(name)
	g.Graph = f.graph.valueIn(record) != 0 || f.node.valueIn(record) != 0
	r.t.GPU = append(r.t.GPU, g)
}

// readGraph stores the launch of a graph that was recorded as one operation.
func (r *reader) readGraph(record []byte) {
	f := &r.f.graph
	g, ok := r.newOperation(model.Kernel, f.start.valueIn(record), f.end.valueIn(record), f.corr.valueIn(record), f.stream.valueIn(record), f.device.valueIn(record))
	if !ok {
		return
	}
	g.Name, g.Graph = r.internText(analyze.WholeGraph), true
	r.graphs++
	r.t.GPU = append(r.t.GPU, g)
}

func (r *reader) readCall(record []byte) {
	f := &r.f.call
	r.t.Events++
	start := clampInt64(f.start.valueIn(record))
	name := r.nameID(uint32(f.name.valueIn(record)), callForm)
	corr := uint32(f.corr.valueIn(record))
	if isDriverCall(r.t.Name(name)) {
		r.hasDriverCalls = true
	} else if corr != 0 {
		r.runtimeCorrs = append(r.runtimeCorrs, corr)
	}
	if !r.isKept(start) {
		return
	}
	h := model.Host{Start: start, End: clampInt64(f.end.valueIn(record)), Kind: model.API, Lane: r.laneOf(uint32(f.thread.valueIn(record))), Corr: int64(corr), Name: name}
	r.lastTime = max(r.lastTime, h.End)
	if code := int64(f.result.signedIn(record)); analyze.IsError(code) {
		r.failed[callKey{h.Lane, h.Start, h.Name}] = code
	}
	r.addHost(h)
}

func (r *reader) addHost(h model.Host) { r.t.Host = append(r.t.Host, h) }

// overheadNames are CUPTI's kinds of overhead, without kind 1, the driver's compilation.
var overheadNames = map[uint64]string{2 << 16: "CUPTI buffer flush", 3 << 16: "CUPTI instrumentation", 4 << 16: "CUPTI resource", 5 << 16: "CUPTI lazy function loading", 6 << 16: "CUPTI command buffer full", 7 << 16: "CUPTI activity buffer request"}

func (r *reader) readOverhead(record []byte) {
	f := &r.f.overhead
	r.t.Events++
	start := f.start.valueIn(record)
	if start == 0 || start > math.MaxInt64 || !r.isKept(int64(start)) {
		return
	}
	name, own := overheadNames[f.kind.valueIn(record)]
	if !own {
		name = "CUDA compiling"
	}
	r.loose = append(r.loose, model.Host{Start: int64(start), End: max(clampInt64(f.end.valueIn(record)), int64(start)), Kind: model.Overhead, Lane: r.laneOf(uint32(f.thread.valueIn(record))), Name: r.internText(name)})
}

// laneOf returns the lane of a thread, and makes a new one if needed.
func (r *reader) laneOf(thread uint32) uint32 {
	i, ok := r.lanes[thread]
	if !ok {
		i = uint32(len(r.t.Lanes))
		r.lanes[thread] = i
		r.t.Lanes = append(r.t.Lanes, model.Lane{Process: r.process, Thread: int64(thread)})
		r.bytes += model.NameBytes
	}
	return i
}

func (r *reader) readThread(record []byte) {
	f := &r.f.thread
	lane := r.laneOf(uint32(f.thread.valueIn(record)))
	if name := r.names[uint32(f.name.valueIn(record))]; name != "" {
		r.t.Lanes[lane].Name = name
	}
}

// maxDevices is the number of values of GPU.Device.
const maxDevices = 1 << 16

// deviceIndex returns the index of a device in Trace.Devices, from its number in the process.
func (r *reader) deviceIndex(number uint64) uint16 {
	if i, ok := r.devices[number]; ok {
		return i
	}
	if len(r.t.Devices) == maxDevices {
		return maxDevices - 1
	}
	i := uint16(len(r.t.Devices))
	r.devices[number] = i
	// Every rank with one visible device calls it 0. Its number on the machine distinguishes the devices of ranks.
	id := int(min(number, math.MaxInt32))
	if number < uint64(len(r.visible)) {
		id = r.visible[number]
	}
	r.t.Devices = append(r.t.Devices, model.Device{ID: id})
	return i
}

func (r *reader) readDevice(record []byte) {
	f := &r.f.device
	d := &r.t.Devices[r.deviceIndex(f.id.valueIn(record))]
	if name := r.names[uint32(f.name.valueIn(record))]; name != "" {
		d.Name = name
	}
	small := func(to *int, v uint64) {
		if v > 0 && v < 1<<20 {
			*to = int(v)
		}
	}
	small(&d.SMs, f.sms.valueIn(record))
	if small(&d.Major, f.major.valueIn(record)); d.Major > 0 {
		small(&d.Minor, f.minor.valueIn(record))
	}
	d.TotalBytes = clampInt64(f.memory.valueIn(record))
	d.PeakBytesPerS = float64(f.bandwidth.valueIn(record)) * 1000
}
