package xla

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// recordedCost is the cost of one execution of an instruction, by XLA's cost analysis (xplane_schema.cc). For a TPU,
// it is in the statistics that all executions of an instruction share.
type recordedCost struct {
	category, shape    string
	flops, modelFLOPs  float64 // on some devices, flops counts half of the FLOPs of 8-bit products
	bytes              float64
	memories           []byte // bytes accessed, by memory: a MemoryAccessBreakdown
	hasFLOPs, hasBytes bool
}

func (r *recordedCost) setStat(s stat) {
	switch s.key {
	case "hlo_category":
		r.category = s.text
	case "shape_with_layout":
		r.shape = s.text
	case "flops":
		r.flops, r.hasFLOPs = s.real, true
	case "model_flops":
		r.modelFLOPs, r.hasFLOPs = s.real, true
	case "bytes_accessed":
		r.bytes, r.hasBytes = s.real, true
	case "memory_access_breakdown":
		r.memories = []byte(s.text)
	}
}

// onChip marks, in the layout of a shape, an operand outside the device's main memory: {1,0:T(8,128)S(1)}.
const onChip = "S("

// numberCost returns the index plus one of an event's instruction in Trace.Instructions; 0 if the event has no cost.
func (c *converter) numberCost(e *event) int64 {
	r := &e.cost
	if !r.hasFLOPs && !r.hasBytes {
		return 0
	}
	in := model.Instruction{Name: e.name, Kind: r.category, Bytes: finitePositive(r.bytes)}
	in.FLOPs = finitePositive(cmp.Or(r.modelFLOPs, r.flops))
	in.Type, _, _ = strings.Cut(cmp.Or(r.shape, resultOf(e.instruction)), "{")
	in.Costed = in.FLOPs+in.Bytes > 0
	in.Product = strings.Contains(r.category, "convolution") || strings.Contains(r.category, "dot")
	if strings.Contains(r.category, "custom") {
		in.Costed = in.FLOPs > 0 // XLA cannot analyse kernels of others; their authors may state the cost
		in.Product = true
	}
	if in.Product && !shortTypes.MatchString(e.instruction) {
		in.Precision = "16-bit" // TPUs multiply longer numbers in several passes
	}
	if main, ok := mainMemory(r.memories); ok {
		in.Bytes = main
	} else if strings.Contains(r.shape, onChip) || strings.Contains(e.instruction, onChip) {
		in.Bytes = 0 // unknown: the recorded bytes are of several memories together
	}
	id, known := c.ids[in]
	if !known {
		c.t.Instructions = append(c.t.Instructions, in)
		id = int64(len(c.t.Instructions))
		c.ids[in] = id
		c.texts += model.TextBytes(in.Name) + model.TextBytes(in.Type) + model.GPUBytes
	}
	return id
}

// shortTypes matches operands whose products may be faster than the recorded peak rate.
var shortTypes = lazyregexp.New(`\b([su][248]|f8e\w+|f4e\w+)\[`)

// resultOf returns the type of the result in the text of an instruction, "%fusion.3 = bf16[8,128]{1,0} fusion(…)"; ""
// if it has several results.
func resultOf(text string) string {
	_, after, _ := strings.Cut(text, " = ")
	if strings.HasPrefix(after, "(") {
		return "" // several results
	}
	word, _, _ := strings.Cut(after, " ")
	return word
}

// mainMemory adds up the bytes of the device's main memory in a MemoryAccessBreakdown (op_metrics.proto). Field 1
// repeats a message of operation (1), memory (2; the main one is 1) and bytes (3). ok is false without such messages.
func mainMemory(text []byte) (bytes float64, ok bool) {
	err := eachField(text, func(f field) bool {
		if f.number != 1 {
			return true
		}
		var memory, n uint64
		ok = eachField(f.text, func(g field) bool {
			switch g.number {
			case 2:
				memory = g.value
			case 3:
				n = g.value
			}
			return true
		}) == nil
		if memory == 1 {
			bytes += float64(n)
		}
		return ok
	})
	return bytes, ok && err == nil
}

// dropControlFlow removes operations of a TPU that contain others, such as loops and branches, because their time is
// the time of the operations inside.
func (c *converter) dropControlFlow() {
	t := c.t
	byDevice := map[uint16][]int{}
	for i := range t.GPU {
		if c.hasOpLine[t.GPU[i].Device] {
			byDevice[t.GPU[i].Device] = append(byDevice[t.GPU[i].Device], i)
		}
	}
	drop := map[int]bool{}
	for _, list := range byDevice {
		slices.SortStableFunc(list, func(a, b int) int {
			return cmp.Or(cmp.Compare(t.GPU[a].Start, t.GPU[b].Start), cmp.Compare(t.GPU[b].End, t.GPU[a].End))
		})
		for k := range len(list) - 1 {
			outer, inner := &t.GPU[list[k]], &t.GPU[list[k+1]]
			if inner.Start < outer.End && inner.End <= outer.End && inner.Dur() > 0 {
				drop[list[k]] = true
			}
		}
	}
	if len(drop) == 0 {
		return
	}
	kept := t.GPU[:0]
	for i := range t.GPU {
		if !drop[i] {
			kept = append(kept, t.GPU[i])
		}
	}
	t.GPU = kept
}

// finitePositive returns v, or 0 if v is not a positive finite number. XLA writes -1 for an unknown cost.
func finitePositive(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 1) {
		return 0
	}
	return v
}
