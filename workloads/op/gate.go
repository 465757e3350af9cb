package op

import (
	_ "embed"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

//go:embed gate.ptx.zst
var gatePTX string

// Gate applies activations to scalars s and multiplies the other features v by activated gate scalars g, like e3nn's
// nn.Gate but without sorting the input. ActScalars and ActGates name one activation per block of Scalars and of Gates.
// The copies in Gated take the gates in order, one each. Normalisation ("exact" or "e3nn") chooses the constants c:
//
//	x [rows, scalars+gates+gated] -> out [rows, scalars+gated] = [c*phi(s), c*phi(g)*v]
type Gate struct {
	Scalars, Gates, Gated so3.Irreps
	ActScalars, ActGates  []string
	Normalisation         string
	Layout                Layout
}

// An item of gateKernel is one row. The host kernel's table lists runs: ranges of copies with one activation. A run is
// eight integers: offset in x, offset in out, number of copies, components (0 for scalars), offset of the gates,
// activation, stride of copies, stride of components. The CUDA kernel reads gateRuns.columnTable instead.
var gateKernel = device.Typed[gateArgs](device.Kernel{Name: "gate", Host: gateHost, Grain: 16, PTX: gatePTX, Threads: 256, PerBlock: 1})

const (
	runInts    = 8
	columnInts = 4
)

// InDim returns the width of an input row.
func (g Gate) InDim() int { return g.Scalars.Dim() + g.Gates.Dim() + g.Gated.Dim() }

// OutDim returns the width of an output row.
func (g Gate) OutDim() int { return g.Scalars.Dim() + g.Gated.Dim() }

// gateRuns is the compiled form of a Gate. table lists runs of copies with one activation (see gateKernel), constants
// each run's constant c. flops is the number of operations per row, out the irreps of the output.
type gateRuns struct {
	table     []int32
	constants []float32
	flops     int
	out       so3.Irreps
}

// OutIrreps returns the irreps of the output. An even activation makes an odd scalar even. An odd gate flips the parity
// of the features that it multiplies. A block whose gates have both parities is split.
func (g Gate) OutIrreps() (so3.Irreps, error) {
	runs, err := g.compileRuns()
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading gate: %v", err)
	}
	return runs.out, nil
}

// Check returns the reason why the gate cannot be bound, or nil.
func (g Gate) Check() error {
	_, err := g.OutIrreps()
	return err
}

// oneGate is the activation of one gate scalar, with its constant c and the parity of its result.
type oneGate struct {
	act    activation
	c      float64
	parity int8
}

func (g Gate) compileRuns() (gateRuns, error) {
	var r gateRuns
	if err := g.Layout.checkLayout("gate"); err != nil {
		return r, err
	}
	if len(g.ActScalars) != len(g.Scalars) || len(g.ActGates) != len(g.Gates) {
		return r, gpuprof.Errorf(nil, "%d scalar blocks have %d activations and %d gate blocks have %d", len(g.Scalars), len(g.ActScalars), len(g.Gates), len(g.ActGates)).WithFix("give one per block")
	}
	if g.Gates.NumIrreps() != g.Gated.NumIrreps() {
		return r, gpuprof.Errorf(nil, "%d gates do not match %d gated irreps (%v, %v)", g.Gates.NumIrreps(), g.Gated.NumIrreps(), g.Gates, g.Gated).WithFix("use one gate per copy")
	}
	at := 0
	for i, m := range g.Scalars {
		one, err := g.checkScalar(m, g.ActScalars[i])
		if err != nil {
			return r, err
		}
		r.add(one, at, at, m.Mul, 0, at, 1, 1)
		r.out = append(r.out, so3.MulIrrep{Mul: m.Mul, Ir: so3.Irrep{L: 0, P: one.parity}})
		at += m.Mul
	}
	var gates []oneGate
	for i, m := range g.Gates {
		one, err := g.checkScalar(m, g.ActGates[i])
		if err != nil {
			return r, err
		}
		for range m.Mul {
			gates = append(gates, one)
		}
	}
	err := g.addGated(&r, gates)
	return r, err
}

// checkScalar checks that a block is scalar and that its activation is equivariant on the block's parity.
func (g Gate) checkScalar(m so3.MulIrrep, name string) (oneGate, error) {
	a, c, err := findActivation(name, g.Normalisation)
	if err != nil {
		return oneGate{}, err
	}
	if m.Ir.L != 0 {
		return oneGate{}, gpuprof.Errorf(nil, "block %v is activated but not scalar", m).WithFix("use l=0")
	}
	p := m.Ir.P
	if p == -1 {
		if a.parity == neither {
			return oneGate{}, gpuprof.Errorf(nil, "activation %s is neither even nor odd, so it breaks the parity of %v", a.name, m).WithFix("use tanh, abs or none")
		}
		p = int8(a.parity)
	}
	return oneGate{act: a, c: c, parity: p}, nil
}

// addGated appends the runs of the gated blocks. It starts a new run where the activation or the parity of the gate
// changes.
func (g Gate) addGated(r *gateRuns, gates []oneGate) error {
	scalars, q := g.Scalars.Dim(), 0
	at := scalars + g.Gates.Dim()
	for _, m := range g.Gated {
		su, si := g.Layout.blockStrides(m)
		for u := 0; u < m.Mul; {
			end := u + 1
			for end < m.Mul && gates[q+end] == gates[q+u] {
				end++
			}
			if g.Layout == IrMul && gates[q+u].parity != gates[q].parity {
				return gpuprof.Errorf(nil, "block %v has gates of both parities, which splits it, and an ir_mul block cannot be split in place", m).WithFix("use one block per parity")
			}
			r.add(gates[q+u], at+u*su, at-g.Gates.Dim()+u*su, end-u, m.Ir.Dim(), scalars+q+u, su, si)
			r.out = append(r.out, so3.MulIrrep{Mul: end - u, Ir: so3.Irrep{L: m.Ir.L, P: m.Ir.P * gates[q+u].parity}})
			u = end
		}
		q += m.Mul
		at += m.Dim()
	}
	return nil
}

func (r *gateRuns) add(one oneGate, x, out, copies, d, gate, su, si int) {
	if copies == 0 {
		return
	}
	r.table = append(r.table, int32(x), int32(out), int32(copies), int32(d), int32(gate), int32(one.act.id), int32(su), int32(si))
	r.constants = append(r.constants, float32(one.c))
	r.flops += copies * (one.act.flops + 1 + d)
}

// columnTable returns four integers for each column of out: its column in x (-1 for a scalar), the column of its gate,
// the activation, and the bits of the constant c. For a scalar, the second integer is its own column in x.
func (r *gateRuns) columnTable(outDim int) []int32 {
	out := make([]int32, columnInts*outDim)
	for i, c := range r.constants {
		t := r.table[i*runInts:][:runInts]
		for u := range t[2] {
			for j := range max(t[3], 1) {
				x, at := int32(-1), u
				if t[3] > 0 {
					at = u*t[6] + j*t[7]
					x = t[0] + at
				}
				copy(out[columnInts*(t[1]+at):], []int32{x, t[4] + u, t[5], int32(math.Float32bits(c))})
			}
		}
	}
	return out
}

// Bind binds the operation for the given number of rows.
func (g Gate) Bind(dev device.Device, x, out device.Buffer, rows int) (*Bound, error) {
	k := newBinder(dev, "gate", 0)
	runs := k.gateRuns(g, rows)
	k.checkBuffer("x", x, int64(rows)*int64(g.InDim()))
	k.checkBuffer("out", out, int64(rows)*int64(g.OutDim()))
	table, constants := k.uploadInts(runs.table), k.uploadFloats(runs.constants)
	k.b.minimum = rate{fixed: Moved(rows*runs.flops, rows*g.InDim(), rows*g.OutDim())}
	columns := k.uploadInts(runs.columnTable(g.OutDim()))
	k.addLaunch(&gateKernel, items{fixed: rows}, k.b.minimum, gateArgs{
		x: x, out: out, table: table, constants: constants, columns: columns, count: itemCount, inDim: g.InDim(),
		outDim: g.OutDim(), runs: len(runs.constants),
	})
	return k.finishBinding()
}

// gateRuns compiles a gate and checks the number of rows.
func (k *binder) gateRuns(g Gate, rows int) gateRuns {
	runs, err := g.compileRuns()
	k.failOn(err)
	k.checkRows(rows)
	return runs
}
