package analyze

import "github.com/gpuprof/gpuprof/internal/trace/model"

// Roofline compares the time of operators, in the steps that are not dropped as warm-up, with the least time that their
// arithmetic and memory traffic need at the peak rates of the device.
type Roofline struct {
	Device   string `json:"device"`   // row of the device in the data sheets, "" if there is none
	Document string `json:"document"` // vendor's document with the peak rates
	// FLOPsPerS holds the peak rate by precision, FLOP/s; BytesPerS is the peak rate of the device's memory. CacheBytes
	// is the size of the last-level cache.
	FLOPsPerS  map[string]float64 `json:"flops_per_s,omitempty"`
	BytesPerS  float64            `json:"bytes_per_s,omitempty"`
	CacheBytes float64            `json:"cache_bytes,omitempty"`
	// Reachable is the share of the 16-bit peak rate that a good matrix product reaches, 0 unknown. ReachedBy names the
	// measurement of gpuprof doctor that gave the share; "" if the share is the best published result.
	Reachable float64 `json:"reachable,omitempty"`
	ReachedBy string  `json:"reached_by,omitempty"`
	// CopyShare is the share of BytesPerS that a copy within the device's memory reaches by gpuprof doctor, which CopyBy
	// names; 0 and "" unknown.
	CopyShare float64 `json:"copy_share,omitempty"`
	CopyBy    string  `json:"copy_by,omitempty"`
	// DeviceNS is the device time per step. ModelledNS is the part of it in operators whose cost is known.
	DeviceNS   int64               `json:"device_ns"`
	ModelledNS int64               `json:"modelled_ns"`
	Operators  []RooflineOperator  `json:"operators"`  // most time above the bound first
	Unmodelled []UnmodelledRuntime `json:"unmodelled"` // most time first
	// Unlisted counts the operators with a cost model that Operators omits because they are close to their bound;
	// UnlistedNS is their time.
	Unlisted   int   `json:"unlisted,omitempty"`
	UnlistedNS int64 `json:"unlisted_ns,omitempty"`
	// Collectives lists the collectives with a recorded size, most time first.
	Collectives []CollectiveRate `json:"collectives,omitempty"`
	// Precision is the precision with the most FLOPs. HFU and MFU are the utilisations of its peak rate in the mean
	// step: HFU counts all FLOPs that ran, MFU leaves out the FLOPs that fused attention recomputes. 0 unknown.
	Precision string  `json:"precision,omitempty"`
	StepFLOPs float64 `json:"step_flops,omitempty"`
	HFU       float64 `json:"hfu,omitempty"`
	MFU       float64 `json:"mfu,omitempty"`
	// ProductsCounted is the share of the time in matrix products, convolutions and attention whose FLOPs are known.
	// HFU and MFU are given only from 95 % on.
	ProductsCounted float64 `json:"products_counted"`
	// Recomputed reports that the backward pass recomputes activations, so that MFU is unknown.
	Recomputed bool `json:"recomputed,omitempty"`
	// Rows maps indexes into Trace.GPU to indexes into Operators, -1 none; nil in an analysis that was read from a file.
	Rows []int32 `json:"-"`
	// Order lists the operations of one steady step in the order of their starts; nil without steps, and in an analysis
	// that was read from a file.
	Order   []OrderedOp `json:"-"`
	Assumed bool        `json:"assumed,omitempty"` // no strides were recorded: operands are assumed to be dense
}

// OrderedOp is a device operation in the order of a step.
type OrderedOp struct {
	Kernel string
	Blocks int64
	NS     int64
	// Row is the index of the operator in Operators, -1 none. Op is the name of an operator without a known cost.
	Row   int32
	Op    string
	Graph bool // replayed by a graph, so that its operator was not recorded
}

// RooflineKey identifies an operator and its arguments in a trace by the operator's name and by Host.Stack, the number
// of its recorded arguments (Args). Range is the text of an enclosing range that the cost model needs, "" for most
// operators. An XLA instruction is identified by its number (GPU.Ext) alone.
type RooflineKey struct {
	Op    model.NameID
	Args  uint32
	Range string
	// Within is the number of the arguments (Host.Stack) of the enclosing aten::scaled_dot_product_attention, 0 none. It
	// groups the operators of an attention, which differ from library to library.
	Within      uint32
	Instruction int64
}

// RooflineOperator adds up all calls of one operator with equal arguments, per step.
type RooflineOperator struct {
	Key       RooflineKey `json:"-"`
	Product   []int64     `json:"-"` // M, N and K of a matrix product
	Name      string      `json:"name"`
	Shapes    string      `json:"shapes"`
	Within    string      `json:"within,omitempty"`    // shapes of the enclosing attention operator
	Precision string      `json:"precision,omitempty"` // of the arithmetic
	Kernel    string      `json:"kernel"`              // the kernel with most of the time
	Calls     float64     `json:"calls"`
	NS        int64       `json:"ns"`
	FLOPs     float64     `json:"flops"`  // per call
	Bytes     float64     `json:"bytes"`  // read and written per call
	Source    string      `json:"source"` // of the cost model
	FLOPsPerS float64     `json:"flops_per_s"`
	BytesPerS float64     `json:"bytes_per_s"`
	// BoundNS is the least time at peak rates, the lower bound of NS. If it is 0, no bound is known and Bound gives the
	// reason. AboveNS is the time above the bound.
	BoundNS int64  `json:"bound_ns"`
	Bound   string `json:"bound"` // "compute", "memory", "launch", or one of the reasons below
	AboveNS int64  `json:"above_ns"`
}

// Reasons for which an operator has no bound.
const (
	BoundInCache  = "in cache"       // operands and result fit in the last-level cache, so memory does not bound the operator
	BoundOnChip   = "on-chip memory" // XLA gave no bytes to and from the device's main memory
	BoundExceeded = "faster than the bound"
	BoundUnknown  = "no peak rate"
)

// Share returns the bound as a share of the time, 0 without a bound.
func (o *RooflineOperator) Share() float64 {
	if o.NS <= 0 {
		return 0
	}
	return float64(o.BoundNS) / float64(o.NS)
}

// CollectiveRate adds up all calls of one kind of collective with one size.
type CollectiveRate struct {
	Kind  string  `json:"kind"`
	Ranks int     `json:"ranks"`
	Bytes int64   `json:"bytes"` // per call: what a rank contributes; for an all-gather, what it receives
	Calls float64 `json:"calls"` // per step
	NS    int64   `json:"ns"`    // per step, including the wait for the last rank
	// ShortestNS is the time of the shortest call, which waited least; both rates are computed from it.
	ShortestNS         int64   `json:"shortest_ns"`
	AlgorithmBytesPerS float64 `json:"algorithm_bytes_per_s"`
	BusBytesPerS       float64 `json:"bus_bytes_per_s"`
}

// ReasonReplayed is the reason of a kernel that a graph launched.
const ReasonReplayed = "replayed by a graph, without an operator"

// UnmodelledRuntime is device time per step without a cost model, with the reason.
type UnmodelledRuntime struct {
	Name   string `json:"name"`   // operator, or kernel without an operator
	Reason string `json:"reason"` // "no model", "no shapes were recorded" …
	NS     int64  `json:"ns"`
}
