package analyze

import "github.com/gpuprof/gpuprof/internal/trace/model"

// Roofline compares the operators of the steady part with the peak rates of the device: the distance of each from the
// least time that its arithmetic and its memory traffic need.
type Roofline struct {
	Device   string `json:"device"`   // the data sheet's row, "" where the device has none
	Document string `json:"document"` // the vendor's document of the peak rates
	// Rates of the device: by precision in FLOP/s, of the memory in bytes/s; cache is its last cache in bytes.
	FLOPsPerS  map[string]float64 `json:"flops_per_s,omitempty"`
	BytesPerS  float64            `json:"bytes_per_s,omitempty"`
	CacheBytes float64            `json:"cache_bytes,omitempty"`
	// Reachable is the share of the 16-bit peak that a good matrix product reaches, 0 unknown. ReachedBy names the
	// measurement of doctor behind it; "" means the best public product.
	Reachable float64 `json:"reachable,omitempty"`
	ReachedBy string  `json:"reached_by,omitempty"`
	// DeviceNS is the time of the device's operations per step; ModelledNS is the part of operators with a cost.
	DeviceNS   int64               `json:"device_ns"`
	ModelledNS int64               `json:"modelled_ns"`
	Operators  []RooflineOperator  `json:"operators"`  // most time above the bound first
	Unmodelled []UnmodelledRuntime `json:"unmodelled"` // most time first
	// Unlisted counts the operators that have a cost, but less time above their bound than those in the list;
	// UnlistedNS is their time.
	Unlisted   int   `json:"unlisted,omitempty"`
	UnlistedNS int64 `json:"unlisted_ns,omitempty"`
	// Collectives are the collectives with a recorded size, most time first.
	Collectives []CollectiveRate `json:"collectives,omitempty"`
	// Utilisation of the mean step, by the precision with most FLOPs: HFU counts all FLOPs that ran, MFU excludes
	// those that fused attention computes a second time. 0 unknown.
	Precision string  `json:"precision,omitempty"`
	StepFLOPs float64 `json:"step_flops,omitempty"`
	HFU       float64 `json:"hfu,omitempty"`
	MFU       float64 `json:"mfu,omitempty"`
	// ProductsCounted is the share of the time in matrix products, convolutions and attention whose FLOPs are known;
	// the utilisation is given from 95 % on.
	ProductsCounted float64 `json:"products_counted"`
	// Recomputed: activations are computed again in the backward pass, so MFU is unknown.
	Recomputed bool `json:"recomputed,omitempty"`
	// Rows are indexes into Operators by index into Trace.GPU, -1 none; nil in an analysis that was read from a file.
	Rows    []int32 `json:"-"`
	Assumed bool    `json:"assumed,omitempty"` // the recording has no strides: operands are taken as dense
}

// RooflineKey identifies an operator with its arguments in a trace: a name and Host.Stack.
type RooflineKey struct {
	Op   model.NameID
	Args uint32
}

// RooflineOperator adds up all calls of one operator with the same arguments, per step.
type RooflineOperator struct {
	Key       RooflineKey `json:"-"`
	Product   []int64     `json:"-"` // M, N and K of a matrix product
	Name      string      `json:"name"`
	Shapes    string      `json:"shapes"`
	Precision string      `json:"precision,omitempty"` // of its arithmetic
	Kernel    string      `json:"kernel"`              // that takes most of its time
	Calls     float64     `json:"calls"`
	NS        int64       `json:"ns"`
	FLOPs     float64     `json:"flops"`  // of a call
	Bytes     float64     `json:"bytes"`  // of a call
	Source    string      `json:"source"` // of the cost model
	// The rates over the device's time.
	FLOPsPerS float64 `json:"flops_per_s"`
	BytesPerS float64 `json:"bytes_per_s"`
	// BoundNS is the least time at peak rates; 0 without a bound, and Bound gives the reason.
	BoundNS int64  `json:"bound_ns"`
	Bound   string `json:"bound"` // "compute", "memory", "launch", or BoundInCache, BoundExceeded, BoundUnknown
	AboveNS int64  `json:"above_ns"`
}

// Reasons why an operator has no bound.
const (
	BoundInCache  = "in cache" // operands and result fit in the last cache: the memory does not bound it
	BoundExceeded = "faster than the bound"
	BoundUnknown  = "no peak rate"
)

// Share returns the bound's share of the time, 0 without a bound.
func (o *RooflineOperator) Share() float64 {
	if o.NS <= 0 {
		return 0
	}
	return float64(o.BoundNS) / float64(o.NS)
}

// CollectiveRate adds up all calls of one kind of communication with one size.
type CollectiveRate struct {
	Kind  string  `json:"kind"`
	Ranks int     `json:"ranks"`
	Bytes int64   `json:"bytes"` // of a call: what a rank gives; of an all-gather what it gets
	Calls float64 `json:"calls"` // per step
	NS    int64   `json:"ns"`    // per step, waiting for the last rank included
	// ShortestNS is the shortest call, in which this rank waited least; both rates use it.
	ShortestNS         int64   `json:"shortest_ns"`
	AlgorithmBytesPerS float64 `json:"algorithm_bytes_per_s"`
	BusBytesPerS       float64 `json:"bus_bytes_per_s"`
}

// UnmodelledRuntime is device time per step without a cost, by the missing input.
type UnmodelledRuntime struct {
	Name   string `json:"name"`   // operator, or kernel without an operator
	Reason string `json:"reason"` // "no model", "no shapes were recorded" …
	NS     int64  `json:"ns"`
}
