package tpgen

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// Source returns the .cu of a family: the code of every part, once if layers share it, then the kernel. It also returns
// these parts, in the order of their numbers in the kernel.
func Source(f Family) (string, []*Part, error) { return familySource[*Part](f, forward, f.cutForward) }

// GradSource is Source for dw and dy, the family's gradients with respect to weights and harmonics.
func GradSource(f Family) (string, []*GradPart, error) {
	return familySource[*GradPart](f, gradient, f.cutGrad)
}

// XSource is Source for dx, the family's gradient with respect to features.
func XSource(f Family) (string, []*XPart, error) { return familySource[*XPart](f, gradientX, f.cutX) }

// dialect holds the names that differ between the three kinds of kernels: HEADER in tensorproduct_HEADER.cuh, the
// prefix of that header's macros, and the prefix of the kernels' names.
type dialect struct{ header, macro, prefix string }

var (
	forward   = dialect{"gen", "TPG", "tp_csr_"}
	gradient  = dialect{"gengrad", "TPD", "tp_grad_"}
	gradientX = dialect{"gengradx", "TPX", "tp_gradx_"}
)

// coded is the constraint for *Part, *GradPart and *XPart.
type coded interface {
	codeKey() string // parts with equal keys share their code
	write(b *strings.Builder, number, sh int)
	pathList() []*path
}

// cut is the constraint for *Spec, *GradSpec and *XSpec, products cut into parts.
type cut[P coded] interface {
	cutParts() (so3.TensorProduct, []P)
}

func familySource[P coded, S cut[P]](f Family, d dialect, cutLayer func(so3.TensorProduct) (S, error)) (string, []P, error) {
	specs, err := cutLayers(f, cutLayer)
	if err != nil {
		return "", nil, err
	}
	var layers []string
	for _, l := range f.Layers {
		layers = append(layers, fmt.Sprintf("%s: %s x l <= %d -> %s", l.Preset, l.In, l.LMax, l.Target))
	}
	text, parts := writeSource[P](d, "by workloads/op/tpgen/gen for "+strings.Join(layers, "; "), d.prefix+f.Name, specs)
	return text, parts, nil
}

func writeSource[P coded, S cut[P]](d dialect, by, kernel string, specs []S) (text string, parts []P) {
	var b, cases strings.Builder
	fmt.Fprintf(&b, "// Generated %s; do not edit.\n#include \"tensorproduct_%s.cuh\"\n\n", by, d.header)
	numbers := Numbers{}
	for _, spec := range specs {
		tp, all := spec.cutParts()
		for _, p := range all {
			if n, fresh := numbers.numberOf(p.codeKey()); fresh {
				p.write(&b, n, tp.In2.Dim())
				fmt.Fprintf(&cases, "  %s_CASE(%d)\n", d.macro, n)
				parts = append(parts, p)
			}
		}
	}
	fmt.Fprintf(&b, "%s_KERNEL(%s,\n%s)\nGPUPROF_KERNEL(%s)\n", d.macro, kernel, strings.TrimRight(cases.String(), "\n"), kernel)
	return b.String(), parts
}

// Made is a kernel generated at run time for a product that no family has. P is Plan, GradPlan or XPlan.
type Made[P any] struct {
	Plan   *P
	Kernel string // its name in Source
	Source string // CUDA C++ that includes a header tensorproduct_….cuh
}

func makeKernel[P coded, S cut[P], L any](d dialect, spec S, plan func([]S, int) *L) (*Made[L], error) {
	tp, parts := spec.cutParts()
	if !coversPaths(tp, parts) {
		return nil, fmt.Errorf("a path of %v x %v -> %v needs more registers than a warp has", tp.In1, tp.In2, tp.Out)
	}
	name := d.prefix + Key(tp)
	text, _ := writeSource[P](d, fmt.Sprintf("where it runs for %v x %v -> %v", tp.In1, tp.In2, tp.Out), name, []S{spec})
	return &Made[L]{Plan: plan([]S{spec}, 0), Kernel: name, Source: text}, nil
}

// Numbers holds the numbers of a kernel's parts by the identity of their code: parts with the same code share a number.
type Numbers map[string]int

func (n Numbers) numberOf(identity string) (number int, fresh bool) {
	number, known := n[identity]
	if !known {
		number = len(n)
		n[identity] = number
	}
	return number, !known
}

func (p *Part) codeKey() string {
	s := fmt.Sprint(p.L1, p.Copies, p.Mul, p.Stride, p.Batch, p.Ahead, p.PairedOut, p.hold, p.columns)
	for _, q := range p.paths {
		s += fmt.Sprint(q.triple)
	}
	return s
}

// floatLiteral returns a C++ literal with the exact value v.
func floatLiteral(v float32) string {
	return fmt.Sprintf("%sf", strings.Replace(fmt.Sprintf("%x", float64(v)), "p+00", "p+0", 1))
}

type writer struct {
	*strings.Builder
	p *Part
}

func (w writer) writeLine(format string, args ...any) { fmt.Fprintf(w, "  "+format+"\n", args...) }

// write writes the part as a C++ type: its constants and the device functions build, first, edge and out.
func (p *Part) write(b *strings.Builder, number, sh int) {
	w := writer{b, p}
	fmt.Fprintf(b, "// l1 = %d:", p.L1)
	for _, q := range p.paths {
		fmt.Fprintf(b, " (%d,%d)", q.l2, q.l3)
	}
	fmt.Fprintf(b, "\nstruct tpg_part%d {\n", number)
	w.writeLine("enum { COPIES = %d, D1 = %d, PATHS = %d, SUMS = %d, STRIDE = %d, BATCH = %d, SH = %d, STEP = %d };",
		p.Copies, 2*p.L1+1, len(p.paths), p.Sums, p.Stride, p.Batch, sh, p.Mul)
	w.writeBuild()
	w.writeFirst()
	w.writeEdge()
	w.writeOut()
	b.WriteString("};\n\n")
}

// writeBuild writes the device function build. It computes the distinct values (slots) of the matrices M of one edge
// and stores them at m, path by path.
func (w writer) writeBuild() {
	w.writeLine("GP_FN void build(float *m, const float *y, float scale) {")
	var cells []string
	written := 0
	flush := func(all bool) {
		for len(cells) >= 4 || all && len(cells) > 0 {
			four := append(slices.Clone(cells[:min(4, len(cells))]), "0.0f", "0.0f", "0.0f")[:4]
			w.writeLine("  tpg_put(m + %d, %s);", written, strings.Join(four, ", "))
			cells = cells[min(4, len(cells)):]
			written += 4
		}
	}
	read, n := map[int]bool{}, 0
	for _, q := range w.p.paths {
		for _, s := range q.slots {
			for _, t := range s.terms {
				if !read[t.J] {
					read[t.J] = true
					w.writeLine("  float y%d = __ldg(y + %d) * scale;", t.J, t.J)
				}
			}
			text := fmt.Sprintf("%s * y%d", floatLiteral(s.terms[0].C), s.terms[0].J)
			for _, t := range s.terms[1:] {
				text = fmt.Sprintf("gp_fma(%s, y%d, %s)", floatLiteral(t.C), t.J, text)
			}
			w.writeLine("  float c%d = %s;", n, text)
			cells = append(cells, fmt.Sprintf("c%d", n))
			n++
			flush(false)
		}
	}
	flush(true)
	w.writeLine("}")
}

// writeFirst writes the device function first, which reads x and the first weights of the first edge.
func (w writer) writeFirst() {
	w.writeLine("GP_FN void first(float *x, float *w, const float *xp, const float *wp) {")
	for i := range 2*w.p.L1 + 1 {
		w.writeLine("  tpg_read<%d>(x + %d, xp + %d);", w.p.Copies, i*w.p.Copies, i*w.p.Mul)
	}
	for i := range w.p.Ahead {
		w.writeLine("  tpg_read<%d>(w + %d, wp + %d);", w.p.Copies, i*w.p.Copies, w.p.columns[i])
	}
	w.writeLine("}")
}

// writeEdge writes the device function edge, which adds one edge's products to the sums. x and the weights of the first
// paths are already loaded, and the device function loads them for the next edge, from rows xn and wn. With Family.Hold
// it contains a branch that is never taken; gradWriter.writeEdge explains it.
func (w writer) writeEdge() {
	p := w.p
	w.writeLine("GP_FN void edge(float *a, float *x, float *w, const float *m, const float *wp, const float *xn, const float *wn, int never) {")
	at := 0
	sums := p.sumsAt()
	for i, q := range p.paths {
		sum := sums[i]
		side, n := q.weightSide()
		w.writeLine("  { // (%d,%d,%d)", q.l1, q.l2, q.l3)
		w.writeLine("    float t[%d];", n*p.Copies)
		if side == onX {
			for c := range n {
				w.writeLine("    tpg_mul<%d>(t + %d, x + %d, w + %d);", p.Copies, c*p.Copies, c*p.Copies, i*p.Copies)
			}
			w.writeAhead(i)
			if i == len(p.paths)-1 {
				w.nextX()
			}
		}
		started := map[int]bool{}
		for k, s := range q.slots {
			if at%4 == 0 {
				w.writeLine("    float4 m%d = *(const float4 *)(m + %d);", at/4, at)
			} else if k == 0 {
				w.writeLine("    float4 m%d = *(const float4 *)(m + %d);", at/4, at/4*4)
			}
			cell := fmt.Sprintf("m%d.%c", at/4, "xyzw"[at%4])
			at++
			if side == onCells {
				w.writeLine("    tpg_cell<%d>(t + %d, %s, w + %d);", p.Copies, k*p.Copies, cell, i*p.Copies)
			}
			for _, u := range s.uses {
				sign := ""
				if u.minus {
					sign = "-"
				}
				switch side {
				case onX:
					w.writeLine("    tpg_add<%d>(a + %d, %s%s, t + %d);", p.Copies, (sum+u.k)*p.Copies, sign, cell, u.i*p.Copies)
				case onCells:
					f := "tpg_fma"
					if u.minus {
						f = "tpg_sub"
					}
					w.writeLine("    %s<%d>(a + %d, t + %d, x + %d);", f, p.Copies, (sum+u.k)*p.Copies, k*p.Copies, u.i*p.Copies)
				case onOut:
					f := "tpg_add"
					if !started[u.k] {
						f = "tpg_cell"
						started[u.k] = true
					}
					w.writeLine("    %s<%d>(t + %d, %s%s, x + %d);", f, p.Copies, u.k*p.Copies, sign, cell, u.i*p.Copies)
				}
			}
		}
		if side == onOut {
			for k := range n {
				w.writeLine("    tpg_fma<%d>(a + %d, w + %d, t + %d);", p.Copies, (sum+k)*p.Copies, i*p.Copies, k*p.Copies)
			}
		}
		if side != onX {
			w.writeAhead(i)
			if i == len(p.paths)-1 {
				w.nextX()
			}
		}
		w.writeLine("  }")
	}
	w.writeLine("}")
}

// writeAhead writes the read of the weights of the path that comes Ahead paths after path i. After the part's last path
// this is a path of the next edge.
func (w writer) writeAhead(i int) {
	p := w.p
	to, from := i+p.Ahead, "wp"
	if to >= len(p.paths) {
		to, from = to-len(p.paths), "wn"
	}
	w.writeLine("    tpg_read<%d>(w + %d, %s + %d);", p.Copies, to*p.Copies, from, p.columns[to])
}

func (w writer) nextX() {
	for c := range 2*w.p.L1 + 1 {
		w.writeLine("    tpg_read<%d>(x + %d, xn + %d);", w.p.Copies, c*w.p.Copies, c*w.p.Mul)
	}
	if w.p.hold {
		w.writeLine("    if (never == -1) return; // see the generator: it keeps loads where they are")
	}
}

// sumsAt returns, for every path, the index of its first sum among the sums of a channel.
func (p *Part) sumsAt() []int {
	var at []int
	n := 0
	for _, q := range p.paths {
		at = append(at, n)
		n += q.d3()
	}
	return at
}

// writeOut writes the device function out, which stores the sums to a row of the output and resets them to zero. Its
// parameter places is Lane.Places.
func (w writer) writeOut() {
	p := w.p
	vector := 1
	if p.PairedOut {
		vector = p.Copies
	}
	w.writeLine("GP_FN void out(float *a, float *row, const int *places) {")
	sums := p.sumsAt()
	for i, q := range p.paths {
		w.writeLine("  tpg_write<%d, %d>(a + %d, row, places[%d], %d, %d);", p.Copies, vector, sums[i]*p.Copies, i, q.d3(), p.Mul)
	}
	w.writeLine("}")
}
