package xla

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// For GPUs, XLA's profiler records no costs. It records the compiled programs, in the plane /host:metadata, and for
// each kernel the instruction that it belongs to. This file computes the costs of instructions from their shapes.

// program is a compiled program (HloModuleProto, xla/service/hlo.proto), by the names and ids of its parts.
type program struct {
	instructions map[string]*instruction
	byID         map[uint64]*instruction
	computations map[uint64][]*instruction
}

// instruction is an HloInstructionProto.
type instruction struct {
	name, opcode, target string
	shape                shape
	operands, called     []uint64
	summed               []uint64 // dimensions of the left operand that a matrix product sums over
	window               []windowDim
	conv                 convDims
	groups, batchGroups  uint64
	config               []byte // backend_config
}

// shape is the shape of an array, or the shapes of a tuple.
type shape struct {
	element uint64 // number of a PrimitiveType (xla_data.proto)
	dims    []uint64
	tuple   []shape
}

// windowDim is the window of a convolution in one dimension. low is the padding before the input.
type windowDim struct{ size, stride, low, dilation, base int64 }

// convDims are the numbers of the dimensions of a convolution.
type convDims struct {
	inputBatch, inputFeature, outputFeature uint64
	input, kernel, output                   []uint64 // spatial dimensions
}

// numbers appends the values of a repeated integer field, packed or not.
func numbers(list []uint64, f field) []uint64 {
	if f.text == nil {
		return append(list, f.value)
	}
	for b := f.text; len(b) > 0; {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return list
		}
		list, b = append(list, v), b[n:]
	}
	return list
}

const mostTuples = 8 // depth of nested tuples

func readShape(b []byte, depth int) (s shape) {
	_ = eachField(b, func(f field) bool {
		switch f.number {
		case 2:
			s.element = f.value
		case 3:
			s.dims = numbers(s.dims, f)
		case 4:
			if depth < mostTuples {
				s.tuple = append(s.tuple, readShape(f.text, depth+1))
			}
		}
		return true
	})
	return s
}

// array returns the shape of an array, or of the first array of a tuple, which is the result of a library call that
// also returns its workspace.
func (s shape) array() shape {
	if len(s.tuple) > 0 {
		return s.tuple[0]
	}
	return s
}

// readProgram reads an HloProto.
func readProgram(text []byte) *program {
	p := &program{instructions: map[string]*instruction{}, byID: map[uint64]*instruction{}, computations: map[uint64][]*instruction{}}
	_ = eachField(text, func(f field) bool {
		if f.number == 1 { // hlo_module
			_ = eachField(f.text, func(g field) bool {
				if g.number == 3 {
					p.readComputation(g.text)
				}
				return true
			})
		}
		return true
	})
	return p
}

func (p *program) readComputation(text []byte) {
	var id uint64
	var all []*instruction
	_ = eachField(text, func(f field) bool {
		switch f.number {
		case 2:
			in, number := readInstruction(f.text)
			p.instructions[in.name], p.byID[number] = in, in
			all = append(all, in)
		case 5:
			id = f.value
		}
		return true
	})
	p.computations[id] = all
}

func readInstruction(text []byte) (in *instruction, id uint64) {
	in = &instruction{groups: 1, batchGroups: 1}
	_ = eachField(text, func(f field) bool {
		switch f.number {
		case 1:
			in.name = string(f.text)
		case 2:
			in.opcode = string(f.text)
		case 3:
			in.shape = readShape(f.text, 0)
		case 15:
			in.window = readWindow(f.text)
		case 16:
			in.conv = readConvDims(f.text)
		case 28:
			in.target = string(f.text)
		case 30:
			in.summed = readSummed(f.text)
		case 35:
			id = f.value
		case 36:
			in.operands = numbers(in.operands, f)
		case 38:
			in.called = numbers(in.called, f)
		case 43:
			in.config = f.text
		case 50:
			in.groups = max(f.value, 1)
		case 61:
			in.batchGroups = max(f.value, 1)
		}
		return true
	})
	return in, id
}

// readSummed returns the dimensions of the left operand that are summed over, from DotDimensionNumbers.
func readSummed(text []byte) (summed []uint64) {
	_ = eachField(text, func(f field) bool {
		if f.number == 1 {
			summed = numbers(summed, f)
		}
		return true
	})
	return summed
}

func readWindow(text []byte) (all []windowDim) {
	_ = eachField(text, func(f field) bool {
		w := windowDim{stride: 1, dilation: 1, base: 1}
		_ = eachField(f.text, func(g field) bool {
			v := int64(g.value)
			switch g.number {
			case 1:
				w.size = v
			case 2:
				w.stride = v
			case 3:
				w.low = v
			case 5:
				w.dilation = v
			case 6:
				w.base = v
			}
			return true
		})
		if f.number == 1 {
			all = append(all, w)
		}
		return true
	})
	return all
}

func readConvDims(text []byte) (d convDims) {
	_ = eachField(text, func(f field) bool {
		switch f.number {
		case 6:
			d.kernel = numbers(d.kernel, f)
		case 7:
			d.inputBatch = f.value
		case 8:
			d.inputFeature = f.value
		case 10:
			d.outputFeature = f.value
		case 11:
			d.input = numbers(d.input, f)
		case 12:
			d.output = numbers(d.output, f)
		}
		return true
	})
	return d
}

// operand returns the shape of operand i of an instruction.
func (p *program) operand(in *instruction, i int) shape {
	if i < len(in.operands) {
		if o := p.byID[in.operands[i]]; o != nil {
			return o.shape.array()
		}
	}
	return shape{element: math.MaxUint64}
}

// compiled is the text of a compiled program, and the program itself once a kernel has referred to it.
type compiled struct {
	text []byte
	read *program
}

// addPrograms stores the compiled programs of the plane /host:metadata in c.programs, by number and by name. The events
// of this plane have names such as "jit_step(6)", for program 6.
func (c *converter) addPrograms(events map[uint64]metadata, stats nameTable) {
	for number, m := range events {
		for _, s := range m.stats {
			if text := hloOf(s, stats); text != nil {
				kept := &compiled{text: text}
				name, rest, found := strings.Cut(m.name, "(")
				if id, err := strconv.ParseUint(strings.TrimSuffix(rest, ")"), 10, 64); found && err == nil {
					number = id
				}
				c.programs[strconv.FormatUint(number, 10)] = kept
				if _, twice := c.programs[name]; twice {
					kept = nil // the name does not tell which program
				}
				c.programs[name] = kept
			}
		}
	}
}

// hloOf returns the HloProto in a statistic, nil if it has another key.
func hloOf(text []byte, stats nameTable) (hlo []byte) {
	is := false
	_ = eachField(text, func(f field) bool {
		switch f.number {
		case 1:
			is = stats[f.value] == "Hlo Proto"
		case 6:
			hlo = f.text
		}
		return true
	})
	if !is {
		return nil
	}
	return hlo
}

// hloKey names an instruction of a compiled program.
type hloKey struct{ program, instruction string }

// findInstruction returns an instruction and its program; nil if the recording has no such program, or the program no
// such instruction.
func (c *converter) findInstruction(k hloKey) (*program, *instruction) {
	kept := c.programs[k.program]
	if kept == nil {
		return nil, nil
	}
	if kept.read == nil {
		kept.read = readProgram(kept.text)
	}
	return kept.read, kept.read.instructions[k.instruction]
}

// numberInstruction returns the number in c.keys of the instruction of a GPU's kernel; 0 if it names none.
func (c *converter) numberInstruction(e *event, g *model.GPU) int32 {
	if e.hlo.instruction == "" || g.Ext > 0 || c.hasOpLine[g.Device] {
		return 0
	}
	id, known := c.keys[e.hlo]
	if !known {
		id = int32(len(c.keys) + 1)
		c.keys[e.hlo] = id
		c.texts += model.TextBytes(e.hlo.instruction) + model.TextBytes(e.hlo.program)
	}
	return id
}

// costKernels gives kernels of a GPU the costs of their instructions. The kernels of one execution share the cost of
// their instruction equally. If they did not run equally often, the instruction has no cost.
func (c *converter) costKernels() {
	runs := make([]map[model.NameID]int, len(c.keys)+1) // by number in c.keys, executions by name of the kernel
	for g, id := range c.kernels {
		if runs[id] == nil {
			runs[id] = map[model.NameID]int{}
		}
		runs[id][c.t.GPU[g].Name]++
	}
	keys := make([]hloKey, len(c.keys)+1)
	for k, id := range c.keys {
		keys[id] = k
	}
	ids := make([]int64, len(keys)) // in Trace.Instructions, from 1
	for id := 1; id < len(keys); id++ {
		p, in := c.findInstruction(keys[id])
		if in == nil {
			continue
		}
		cost := p.costOf(in)
		executions := 0
		for _, n := range runs[id] {
			cost.Costed = cost.Costed && (executions == 0 || executions == n)
			executions = n
		}
		cost.FLOPs, cost.Bytes = cost.FLOPs/float64(len(runs[id])), cost.Bytes/float64(len(runs[id]))
		c.t.Instructions = append(c.t.Instructions, cost)
		ids[id] = int64(len(c.t.Instructions))
	}
	for g, id := range c.kernels {
		if ids[id] > 0 {
			c.t.GPU[g].Ext = ids[id]
		}
	}
}
