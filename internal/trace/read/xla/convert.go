package xla

import (
	"cmp"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// event is one event of a line, with times in ns.
type event struct {
	name          string
	instruction   string // text of the instruction, "" unknown
	start, end    int64
	corr, step    int64 // 0 none; step is the step number plus one
	copyDetails   string
	kernelDetails string
	hlo           hloKey // instruction of a GPU's kernel
	cost          recordedCost
}

// setStat stores a statistic in its field of the event.
func (e *event) setStat(s stat) {
	switch s.key {
	case "correlation_id":
		e.corr = max(s.number, 0)
	case "step_num":
		e.step = max(s.number, 0) + 1
	case "memcpy_details", "memset_details":
		e.copyDetails = s.text
	case "kernel_details":
		e.kernelDetails = s.text
	case "long_name":
		e.instruction = s.text
	case "hlo_op":
		e.hlo.instruction = s.text
	case "program_id":
		e.hlo.program = strconv.FormatInt(s.number, 10)
	case "hlo_module":
		e.hlo.program = cmp.Or(e.hlo.program, s.text) // program_id takes precedence
	default:
		e.cost.setStat(s)
	}
}

type converter struct {
	t         *model.Trace
	names     map[string]model.NameID
	room      *model.MemoryBudget
	texts     int64
	err       error
	ids       map[model.Instruction]int64 // index in Trace.Instructions plus one
	hasOpLine map[uint16]bool             // by index in Trace.Devices: the device has a line "XLA Ops" with its operations
	programs  map[string]*compiled        // recorded programs by number and by name; nil for a name that several have
	keys      map[hloKey]int32            // instructions that kernels of a GPU name, numbered from 1
	kernels   []int32                     // by index in Trace.GPU: the number in keys, 0 none
}

// plane is the host, or a device by its index in Trace.Devices. The events of other planes are skipped.
type plane struct {
	c      *converter
	device int // -1 the host
	skip   bool
}

// line is a thread or a stream.
type line struct {
	plane  *plane
	lane   uint32
	stream int64
	skip   bool
}

func newConverter(path string, room int64) *converter {
	return &converter{
		t:     &model.Trace{Path: path, Format: model.XLA, Rank: -1},
		names: map[string]model.NameID{}, ids: map[model.Instruction]int64{}, hasOpLine: map[uint16]bool{},
		programs: map[string]*compiled{}, keys: map[hloKey]int32{}, room: model.NewMemoryBudget(room),
	}
}

// isOver reports whether the events exceed the memory budget.
func (c *converter) isOver() bool {
	return c.room.Over(int64(len(c.t.Host))*model.HostBytes+int64(len(c.t.GPU))*model.GPUBytes+c.texts) || max(len(c.t.Host), len(c.t.GPU)) >= math.MaxInt32
}

func (c *converter) nameID(s string) model.NameID {
	id, ok := c.names[s]
	if !ok {
		id = model.NameID(len(c.t.Names))
		c.names[s] = id
		c.texts += model.TextBytes(s)
		c.t.Names = append(c.t.Names, s)
	}
	return id
}

var devicePlane = lazyregexp.New(`^/device:(GPU|TPU):(\d{1,5})`)

func (c *converter) newPlane(name string) *plane {
	p := &plane{c: c, device: -1}
	if m := devicePlane.FindStringSubmatch(name); m != nil {
		id, _ := strconv.Atoi(m[2])
		p.device = len(c.t.Devices)
		for i := range c.t.Devices {
			if c.t.Devices[i].ID == id {
				p.device = i
			}
		}
		if p.device == len(c.t.Devices) {
			d := model.Device{ID: id}
			if m[1] == model.TPU {
				d.Name = model.TPU // until a statistic has the kind
			}
			c.t.Devices = append(c.t.Devices, d)
		}
		return p
	}
	p.skip = !strings.HasPrefix(name, "/host:") || name == "/host:metadata"
	return p
}

// setDevice stores a statistic in its field of the device.
func (p *plane) setDevice(s stat) {
	if p.device < 0 {
		return
	}
	d := &p.c.t.Devices[p.device]
	switch s.key {
	case "core_count":
		d.SMs = int(min(max(s.number, 0), math.MaxInt32))
	case "memory_size":
		d.TotalBytes = max(s.number, 0)
	case "compute_cap_major":
		d.Major = int(min(max(s.number, 0), math.MaxInt32))
	case "compute_cap_minor":
		d.Minor = int(min(max(s.number, 0), math.MaxInt32))
	case "device_type_string":
		d.Name = s.text
	case "peak_teraflops_per_second":
		d.PeakFLOPsPerS = finitePositive(s.real * 1e12)
	case "peak_hbm_bw_gigabytes_per_second":
		d.PeakBytesPerS = finitePositive(s.real * 1e9)
	}
}

var streamName = lazyregexp.New(`^Stream #(\d{1,9})`)

// newLine makes the line of a thread or of a device stream. The operations of a TPU are one stream.
func (p *plane) newLine(id int64, name string) *line {
	l := &line{plane: p, skip: p.skip}
	if p.skip {
		return l
	}
	if p.device < 0 {
		l.lane = uint32(len(p.c.t.Lanes))
		p.c.t.Lanes = append(p.c.t.Lanes, model.Lane{Process: 1, Thread: id, Name: name})
		return l
	}
	if m := streamName.FindStringSubmatch(name); m != nil {
		l.stream, _ = strconv.ParseInt(m[1], 10, 64)
		return l
	}
	l.skip = name != "XLA Ops" // on GPUs, other lines repeat the operations of the streams
	if !l.skip {
		p.c.hasOpLine[uint16(min(p.device, math.MaxUint16))] = true
	}
	return l
}

var (
	apiName = lazyregexp.New(`^(cu|cuda|hip)[A-Z]`)
	sizeOf  = lazyregexp.New(`(?:size|num_bytes):(\d{1,18})`)
	gridOf  = lazyregexp.New(`grid:(\d{1,9}),(\d{1,9}),(\d{1,9})`)
	blockOf = lazyregexp.New(`block:(\d{1,5}),(\d{1,5}),(\d{1,5})`)
)

func (c *converter) addEvent(l *line, e *event) {
	if l.skip {
		return
	}
	c.t.Events++
	if l.plane.device >= 0 {
		c.addDevice(l, e)
		return
	}
	h := model.Host{Start: e.start, End: e.end, Lane: l.lane, Kind: model.Op}
	switch {
	case apiName.MatchString(e.name):
		h.Kind, h.Corr = model.API, e.corr
	case strings.HasPrefix(e.name, "$"): // Python frame: $file.py:12 function
		h.Kind, c.t.Inflated = model.Python, true
	case e.step > 0:
		h.Kind = model.Annotation
		e.name += " " + strconv.FormatInt(e.step-1, 10)
	case strings.HasPrefix(e.name, "PjitFunction("):
		h.Kind = model.Annotation
	case e.start == e.end:
		h.Kind = model.Instant
	}
	h.Name = c.nameID(e.name)
	c.t.Host = append(c.t.Host, h)
}

func (c *converter) addDevice(l *line, e *event) {
	g := model.GPU{
		Start: e.start, End: e.end, Corr: e.corr, Stream: l.stream, Launch: -1, Process: 1,
		Device: uint16(min(l.plane.device, math.MaxUint16)), Kind: model.Kernel,
	}
	lower := strings.ToLower(e.name)
	switch {
	case strings.HasPrefix(lower, "memset"):
		g.Kind = model.Memset
	case strings.HasPrefix(lower, "memcpy"), strings.HasPrefix(e.name, "Copy") && e.kernelDetails == "":
		g.Kind = model.Memcpy
		g.Dir = model.DirectionOf(strings.ReplaceAll(lower, "2", "to")) // MemcpyH2D
	}
	if m := sizeOf.FindStringSubmatch(e.copyDetails); m != nil {
		g.Bytes, _ = strconv.ParseInt(m[1], 10, 64)
	}
	g.Blocks = multiplyMatch(gridOf.FindStringSubmatch(e.kernelDetails))
	g.Threads = int32(min(multiplyMatch(blockOf.FindStringSubmatch(e.kernelDetails)), math.MaxInt32))
	g.Name = c.nameID(strings.TrimSuffix(e.name, ".kd")) // kernel suffix of ROCm
	g.Ext = c.numberCost(e)
	c.t.GPU = append(c.t.GPU, g)
	c.kernels = append(c.kernels, c.numberInstruction(e, &g))
}

// multiplyMatch returns the product of the numbers in a match; 0 without a match, or if it is too large.
func multiplyMatch(match []string) int64 {
	if len(match) == 0 {
		return 0
	}
	out := int64(1)
	for _, s := range match[1:] {
		n, _ := strconv.ParseInt(s, 10, 64)
		if n > 0 && out > math.MaxInt64/n {
			return 0
		}
		out *= n
	}
	return out
}
