// Package model defines a recording of a program: tables of host events, device operations and memory, in integer
// nanoseconds, and sets of spans. Readers (trace/read) fill the tables. Trace.Finish sorts the rows, links device
// operations to their launches, and removes invalid rows. The package imports no reader and no rule.
//
// A lane is a list of host events of one thread that nest in each other; a thread with crossing ranges has several. A
// correlation id links a device operation to the API call that launched it. "-1 none" means that an index is -1 if
// there is no such thing.
package model

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Kind is the kind of an event.
type Kind uint8

// Kinds of host events, then of device events.
const (
	Op         Kind = iota + 1 // an operator (aten::mm, CompiledFxGraph …)
	Annotation                 // a range named by the program or a library (record_function, NVTX)
	Step                       // ProfilerStep#N
	API                        // a call of the CUDA or HIP runtime or driver
	Python                     // a frame
	Overhead                   // work of the profiler
	Instant                    // a mark without duration

	Kernel
	Memcpy
	Memset
)

func (k Kind) String() string {
	names := [...]string{"", "operator", "annotation", "step", "api", "python", "overhead", "instant", "kernel", "memcpy", "memset"}
	if int(k) < len(names) {
		return names[k]
	}
	return "unknown"
}

// NameID is an index into Trace.Names; equal names have equal ids.
type NameID uint32

// Host is an event of a host thread. Events of one lane nest.
type Host struct {
	Start, End int64 // ns
	Corr       int64 // API: correlation id, 0 none. Op, Annotation: external id, 0 none
	Seq        int64 // autograd sequence number plus one, 0 none; equal for a forward operator and its backward operator
	Name       NameID
	Lane       uint32 // index into Trace.Lanes
	Stack      uint32 // index into Trace.Stacks plus one, 0 none
	Kind       Kind
}

// Dur returns the length of the event, ns.
func (h *Host) Dur() int64 { return h.End - h.Start }

// Direction is the direction of a copy.
type Direction uint8

// Directions; NoCopy for other events.
const (
	NoCopy Direction = iota
	H2D
	D2H
	D2D
	P2P // between devices
	H2H
)

// DirectionOf parses the direction in a copy's name, "Memcpy DtoH" (CUPTI), "CopyDeviceToHost" or
// "MEMORY_COPY_DEVICE_TO_HOST" (ROCm); NoCopy without one.
func DirectionOf(name string) Direction {
	name = strings.NewReplacer("_", "", " ", "").Replace(strings.ToLower(name))
	for _, d := range []struct {
		dir   Direction
		marks []string
	}{
		{P2P, []string{"ptop", "peertopeer"}},
		{H2D, []string{"htod", "htoa", "hosttodevice", "hosttoarray"}},
		{D2H, []string{"dtoh", "atoh", "devicetohost", "arraytohost"}},
		{D2D, []string{"dtod", "dtoa", "atod", "atoa", "devicetodevice"}},
		{H2H, []string{"htoh", "hosttohost"}},
	} {
		for _, m := range d.marks {
			if strings.Contains(name, m) {
				return d.dir
			}
		}
	}
	return NoCopy
}

// HostMemory is the kind of host memory of a copy.
type HostMemory uint8

// Kinds of host memory.
const (
	UnknownMemory HostMemory = iota
	Pageable
	Pinned
	// Migrated is unified memory, whose pages the driver moves to the processor that uses them.
	Migrated
)

// PageFaults counts page faults of unified memory.
type PageFaults struct {
	Device int64 // on the devices
	Host   int64
}

// GPU is an operation of a device.
type GPU struct {
	Start, End int64 // ns
	Corr       int64 // correlation id, 0 none
	Ext        int64 // external id of the operator; XLA: index into Trace.Instructions plus one; 0 none
	Bytes      int64 // of copies and memsets
	Stream     int64
	Blocks     int64 // blocks of the grid, 0 unknown
	Threads    int32 // threads per block, 0 unknown
	// Launch is the call that launched the operation (index into Trace.Host), -1 unknown; set by Finish.
	Launch  int32
	Process int32 // that launched it (correlation ids count per process)
	Name    NameID
	Device  uint16 // index into Trace.Devices
	Kind    Kind
	Dir     Direction
	Memory  HostMemory
	Graph   bool // part of a graph launch: one call, many operations
}

// Dur returns the length of the operation, ns.
func (g *GPU) Dur() int64 { return g.End - g.Start }

// Instruction is an instruction of a program that XLA compiled, with the cost of one execution.
type Instruction struct {
	Name   string // "fusion.3"
	Kind   string // XLA's category: "convolution fusion"
	Type   string // of the result: "bf16[128,256]"
	FLOPs  float64
	Bytes  float64 // to and from device memory
	Costed bool    // FLOPs and Bytes are known
	// Computed reports that FLOPs and Bytes follow from the shapes in the compiled program, instead of a record.
	Computed bool
	// Product reports that the instruction has matrix products or convolutions, or may have them (a kernel that XLA
	// did not write). Precision is "16-bit", "tf32", "fp64" or "fp8" by the operands; "" if it is unknown.
	Product   bool
	Precision string
}

// KernelResources are the largest resources of any launch of a kernel; 0 unknown or none.
type KernelResources struct {
	Registers   int64 // per thread
	SharedBytes int64 // per block
	LocalBytes  int64 // per thread, in device memory: spilled registers, arrays
}

// Lane is a host thread.
type Lane struct {
	Process int32
	Thread  int64
	Name    string // "" unknown
}

// TPU begins the names of Google's tensor processing units.
const TPU = "TPU"

// Device is a GPU as described by the profiler.
type Device struct {
	ID         int
	Name       string // "" unknown
	Major      int    // compute capability; 0 unknown
	Minor      int    //
	SMs        int    // multiprocessors; 0 unknown
	TotalBytes int64  // of memory; 0 unknown
	// PeakBytesPerS is the memory bandwidth, PeakFLOPsPerS the rate of bf16 products (XLA); 0 unknown.
	PeakBytesPerS float64
	PeakFLOPsPerS float64
	// ProductFLOPsPerS is the rate of bf16 matrix products that gpuprof doctor measured on this machine, CopyBytesPerS
	// the rate of copies within the device's memory, bytes read plus written. MeasuredBy describes the measurement. 0 and
	// "" mean unknown.
	ProductFLOPsPerS float64
	CopyBytesPerS    float64
	MeasuredBy       string
}

// AMD reports whether a device is from AMD, by its name.
func (d *Device) AMD() bool {
	return strings.Contains(d.Name, "AMD") || strings.Contains(d.Name, "Instinct") || strings.Contains(d.Name, "Radeon")
}

// MemoryEvent is one allocation or release.
type MemoryEvent struct {
	At        int64 // ns
	Bytes     int64 // negative for a release
	Allocated int64 // total after the event; -1 unknown
	Reserved  int64 // total after the event; -1 unknown
	Device    int   // -1 the host
	Lane      uint32
}

// StreamWait is a call that makes a stream wait for an event that the profiler recorded.
type StreamWait struct {
	Corr   int64 // correlation id of the call
	Record int64 // correlation id of the call that recorded the event, 0 unknown
	Stream int64 // the waiting stream
	On     int64 // the stream on which the event was recorded, -1 unknown
}

// Collective describes the communication in a kernel (PyTorch 2.3 and later). A name without text is unknown.
type Collective struct {
	Corr    int64  // correlation id of the kernel
	Name    NameID // "allreduce"
	Group   NameID // the name of the group of ranks
	Ranks   NameID // ranks of the group, as a list that may be truncated
	Element NameID // the type of an element: "Float"
	Size    int32  // ranks of the group, 0 unknown
	In, Out int64  // elements that the rank sends, receives
	Seq     int64  // number within the group plus one, 0 unknown
}

// Format is a kind of trace file.
type Format string

// The formats that can be read.
const (
	Kineto Format = "kineto" // PyTorch profiler, Chrome trace JSON
	Nsys   Format = "nsys"   // Nsight Systems, SQLite export
	Rocpd  Format = "rocpd"  // rocprofv3 of ROCm 7, SQLite
	XLA    Format = "xla"    // profiler of XLA (JAX, TensorFlow), XSpace or Chrome trace JSON
	CUDA   Format = "cuda"   // gpuprof's CUDA recorder
)

// Framework is the framework of a program, if the recording shows it.
type Framework uint8

// Frameworks. If a process uses several, the one with the highest number counts.
const (
	OtherFramework Framework = iota // plain CUDA, another framework, or unknown
	JAX
	PyTorch
)

// Program describes the program that `gpuprof run --` recorded.
type Program struct {
	Command []string `json:"command"` // as started, with masked secrets; empty unknown
	CPUs    int      `json:"cpus"`    // available CPUs; 0 unknown
	Dir     string   `json:"dir"`     // folder of the recording, for display
	Opens   string   `json:"-"`       // path of the folder for commands; empty is Dir
	// Traces counts the recorded processes of the program, which share the CPUs.
	Traces int `json:"traces"`
	// Skip is the number of first steps to drop, set by recorders whose records include the slow first steps.
	Skip int `json:"-"`
}

// Trace is one trace file. Readers fill it and call Finish.
type Trace struct {
	Path   string // for display
	Opens  string // path for commands; empty is Path
	Format Format
	Rank   int // -1 unknown
	World  int // ranks of the job, 0 unknown
	Events int // in the file, including removed events
	// Lost is an upper bound of the number of records that the recorder dropped; 0 none or unknown.
	Lost int64

	Names   []string
	Lanes   []Lane
	Devices []Device
	// Host is sorted by lane, start, then longest first; GPU by start.
	Host   []Host
	GPU    []GPU
	Memory []MemoryEvent
	Waits  []StreamWait // empty if not recorded
	Faults PageFaults   // zeros if not recorded
	// Resources holds the resources of kernels by name; nil if not recorded.
	Resources map[NameID]KernelResources
	// Collectives describe communication kernels, in any order.
	Collectives []Collective
	// Instructions have the costs of device operations (XLA). GPU.Ext is an index into them plus one.
	Instructions []Instruction
	// Stacks are texts attached to events, by Host.Stack: a call stack, outermost frame first, frames separated by ';';
	// then ArgsMark and the arguments of an operator for opcost.Parse. Either may be missing. See StackOf and ArgsOf.
	Stacks []string

	// First is the start of the file's first event, ns, for cutting the trace. Shift, ns, was added to all times of
	// the file (Kineto).
	First, Shift int64
	Cut          *Cut // set in a cut trace

	// Sampled holds the hook's measurements of the thread that runs the steps, nil unknown.
	Sampled   *HostSamples
	Program   Program   // the recorded program, if known
	Process   string    // name of the launching process, if known
	Framework Framework // set for format CUDA; each other format implies one

	// Gate counts invalid records; set by Finish.
	Gate Gate

	Truncated bool // the file ended early; the trace is the part before
	// Inflated reports that the profiler recorded Python frames or its own overhead, which slows the host.
	Inflated bool
	Warnings []gpuprof.Warning
}

// ArgsMark separates call stack and arguments in Stacks.
const ArgsMark = "\u241e"

// StackOf returns the call stack of a host event, "" without one.
func (t *Trace) StackOf(h *Host) string {
	stack, _, _ := strings.Cut(t.attachedText(h), ArgsMark)
	return stack
}

// ArgsOf returns the recorded arguments of an operator for opcost.Parse; "" without any.
func (t *Trace) ArgsOf(h *Host) string {
	_, args, _ := strings.Cut(t.attachedText(h), ArgsMark)
	return args
}

// CollectivesByCorr returns the Collectives by correlation id of the kernel.
func (t *Trace) CollectivesByCorr() map[int64]*Collective {
	told := make(map[int64]*Collective, len(t.Collectives))
	for i := range t.Collectives {
		told[t.Collectives[i].Corr] = &t.Collectives[i]
	}
	return told
}

func (t *Trace) attachedText(h *Host) string {
	if h.Stack == 0 || int(h.Stack) > len(t.Stacks) {
		return ""
	}
	return t.Stacks[h.Stack-1]
}

// Name returns the text of a name.
func (t *Trace) Name(id NameID) string {
	if int(id) < len(t.Names) {
		return t.Names[id]
	}
	return ""
}

// SortDevices sorts devices by their id, and updates the device of each operation.
func (t *Trace) SortDevices() {
	old := t.Devices
	order := make([]int, len(old))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(old[a].ID, old[b].ID) })
	sorted, at := make([]Device, len(old)), make([]uint16, len(old))
	for to, from := range order {
		sorted[to], at[from] = old[from], uint16(to)
	}
	t.Devices = sorted
	for i := range t.GPU {
		t.GPU[i].Device = at[t.GPU[i].Device]
	}
}

// ProcessName returns the name of the launching process, else its command; "" unknown.
func (t *Trace) ProcessName() string {
	if t.Process == "" && len(t.Program.Command) > 0 {
		return t.Program.Command[0]
	}
	return t.Process
}

// Warn adds a warning; fix is empty if nothing helps.
func (t *Trace) Warn(code, text, fix string) {
	t.Warnings = append(t.Warnings, gpuprof.Warning{Code: code, Text: text, Fix: fix})
}

// MaxEvents is the largest number of host or device events in a Trace: indices have 32 bits.
const MaxEvents = math.MaxInt32

// WholeTrace is the step source of a trace without steps.
const WholeTrace = "whole trace"
