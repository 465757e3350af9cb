package tpgen

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/workloads/so3"
)

// gradMadeRoom is the GradRoom of gradients generated at run time; see madeRoom.
const gradMadeRoom = 80

// MakeGrad generates the kernel for dw and dy of a product, as Make does for the product itself.
func MakeGrad(tp so3.TensorProduct) (*Made[GradPlan], error) {
	if err := checkGenerable(tp); err != nil {
		return nil, err
	}
	spec, err := CutGrad(tp, gradMadeRoom)
	if err != nil {
		return nil, err
	}
	made, err := makeKernel[*GradPart](gradient, spec, gradPlanOf)
	if err != nil {
		return nil, fmt.Errorf("the gradient of %w", err)
	}
	return made, nil
}

type gradWriter struct {
	*strings.Builder
	p *GradPart
}

func (w gradWriter) writeLine(format string, args ...any) { fmt.Fprintf(w, "  "+format+"\n", args...) }

// write writes the part as a C++ type with its constants and functions.
func (p *GradPart) write(b *strings.Builder, number, sh int) {
	w := gradWriter{b, p}
	fmt.Fprintf(b, "// l1 = %d:", p.L1)
	for _, q := range p.paths {
		fmt.Fprintf(b, " (%d,%d)", q.l2, q.l3)
	}
	fmt.Fprintf(b, "\nstruct tpd_part%d {\n", number)
	w.writeLine("enum { COPIES = %d, D1 = %d, PATHS = %d, SUMS = %d, STEP = %d, MERGED = %d, SH = %d, COLUMNS = %d, STRIDE = %d, ROWS = %d };",
		p.Copies, 2*p.L1+1, len(p.paths), p.Sums, p.Mul, asInt(p.Merged), sh, len(p.harmonics), p.Stride(), p.Rows())
	w.writeStage()
	w.writeRows()
	w.writeFirst()
	w.writeEdge()
	b.WriteString("};\n\n")
}

// writeStage writes the device function stage, which copies an edge's harmonics to shared memory, in the part's order.
func (w gradWriter) writeStage() {
	w.writeLine("GP_FN void stage(float *m, const float *y) {")
	for at := 0; at < len(w.p.harmonics); at += 4 {
		var four []string
		for c := at; c < at+4; c++ {
			if c < len(w.p.harmonics) {
				four = append(four, fmt.Sprintf("__ldg(y + %d)", w.p.harmonics[c]))
			} else {
				four = append(four, "0.0f")
			}
		}
		w.writeLine("  tpg_put(m + %d, %s);", at, strings.Join(four, ", "))
	}
	w.writeLine("}")
}

// writeRows writes the device function rows, which reads the dz of a row. Its parameter places is GradLane.Places.
func (w gradWriter) writeRows() {
	w.writeLine("GP_FN void rows(float *z, const float *row, const int *places) {")
	at := 0
	for i, q := range w.p.paths {
		w.writeLine("  tpd_row<%d>(z + %d, row, places[%d], %d, %d);", w.p.Copies, at*w.p.Copies, i, q.d3(), w.p.Mul)
		at += q.d3()
	}
	w.writeLine("}")
}

// weightAt returns the offset of path i's weights from the lane's first weight, as source text.
func (w gradWriter) weightAt(i int) string {
	if w.p.Merged {
		return fmt.Sprintf("at[%d]", i*warpLanes)
	}
	return fmt.Sprint(w.p.columns[i])
}

// writeFirst writes the device function first, which reads the weights of the first edge.
func (w gradWriter) writeFirst() {
	w.writeLine("GP_FN void first(float *w, const float *wp, const int *at) {")
	if !w.p.Merged {
		w.writeLine("  (void)at;")
	}
	for i := range w.p.paths {
		w.writeLine("  tpg_read<%d>(w + %d, wp + %s);", w.p.Copies, i*w.p.Copies, w.weightAt(i))
	}
	w.writeLine("}")
}

// writeEdge writes the device function edge, which computes dw and dy of one edge. When it is called, dz, x and the
// weights are already loaded. It loads the weights of the next edge from row wn, writes dw to the row at the pointer
// to, and puts the lane's dy into dy. Between two degrees of harmonics it has a branch that is never taken, because the
// assembler moves no load past a branch. Without the branches, it would move all loads for the next edge behind the
// last sum, and the next edge would wait for them.
func (w gradWriter) writeEdge() {
	p := w.p
	w.writeLine("GP_FN void edge(const float *z, const float *x, float *w, const float *y, float4 *dy, const float *wn, float *to, unsigned writes, const int *at, int never) {")
	w.writeLine("  if (never == -1) return; // see the generator: it keeps loads where they are")
	if !p.Merged {
		w.writeLine("  (void)at;")
	}
	sum, column := 0, 0
	for i := 0; i < len(p.paths); {
		q := p.paths[i]
		d2, first := q.d2(), column
		column += d2
		for quad := first / 4; quad*4 < column; quad++ {
			w.writeLine("  float4 y%d_%d = *(const float4 *)(y + %d);", quad, first, quad*4)
		}
		value := func(j int) string { return fmt.Sprintf("y%d_%d.%c", (first+j)/4, first, "xyzw"[(first+j)%4]) }
		for started := false; i < len(p.paths) && p.paths[i].yAt == q.yAt; i++ {
			w.writePath(i, sum, first, started, value)
			sum += p.paths[i].d3()
			started = true
		}
		last := i == len(p.paths)
		for quad := first / 4; quad*4 < column; quad++ {
			if quad*4+4 > column && !last {
				break
			}
			var four []string
			for c := quad * 4; c < quad*4+4; c++ {
				if c < column {
					four = append(four, fmt.Sprintf("s%d", c))
				} else {
					four = append(four, "0.0f")
				}
			}
			w.writeLine("  tpd_put<ROWS>(dy, %d, %s);", quad, strings.Join(four, ", "))
		}
		if !last {
			w.writeLine("  if (never == %d) return;", -1-i)
		}
	}
	w.writeLine("}")
}

// writePath writes the code of path i. The parameter sum is the index of its first dz, first the index of its first
// harmonic in the part's order, and value returns the source text of harmonic j. If started is set, the path adds to dy
// of these harmonics, else it sets them.
func (w gradWriter) writePath(i, sum, first int, started bool, value func(j int) string) {
	p, q := w.p, w.p.paths[i]
	v, d2 := p.Copies, q.d2()
	if !started {
		var names []string
		for j := range d2 {
			names = append(names, fmt.Sprintf("s%d = 0", first+j))
		}
		w.writeLine("  float %s;", strings.Join(names, ", "))
	}
	w.writeLine("  { // (%d,%d,%d)", q.l1, q.l2, q.l3)
	w.writeLine("    float d[%d];", v)
	if q.isScalar() {
		w.writeScalar(i, sum, first, value)
	} else {
		w.writeLine("    float p[%d], g[%d];", v, d2*v)
		have := map[int]bool{}
		for _, s := range q.slots {
			for n, u := range s.uses {
				f := "tpg_fma"
				switch {
				case n == 0 && u.minus:
					f = "tpd_minus"
				case n == 0:
					f = "tpg_mul"
				case u.minus:
					f = "tpg_sub"
				}
				w.writeLine("    %s<%d>(p, x + %d, z + %d);", f, v, u.i*v, (sum+u.k)*v)
			}
			for _, t := range s.terms {
				j := t.J - q.yAt
				f := "tpg_add"
				if !have[j] {
					f, have[j] = "tpg_cell", true
				}
				w.writeLine("    %s<%d>(g + %d, %s, p);", f, v, j*v, floatLiteral(t.C))
			}
		}
		for j := range d2 {
			f := "tpg_add"
			if j == 0 {
				f = "tpg_cell"
			}
			w.writeLine("    %s<%d>(d, %s, g + %d);", f, v, value(j), j*v)
			w.writeLine("    s%d = tpd_dot<%d>(s%d, w + %d, g + %d);", first+j, v, first+j, i*v, j*v)
		}
	}
	w.writeLine("    tpg_read<%d>(w + %d, wn + %s);", v, i*v, w.weightAt(i))
	if p.Merged {
		w.writeLine("    if (writes & %du) tpd_write<%d>(to + %s, d);", 1<<i, v, w.weightAt(i))
	} else {
		w.writeLine("    if (writes) tpd_write<%d>(to + %s, d);", v, w.weightAt(i))
	}
	w.writeLine("  }")
}

// writeScalar writes the code of a path for which isScalar holds. With s the scalar times the constant and v the other
// operand, dw = s sum_j y_j v_j and dy_j = w s v_j.
func (w gradWriter) writeScalar(i, sum, first int, value func(j int) string) {
	p, q := w.p, w.p.paths[i]
	v := p.Copies
	one, other, at := "x", "z", sum
	if q.d1() > 1 {
		one, other, at = "z", "x", 0
	}
	place := func(u signedCell) int {
		if one == "x" {
			return (at + u.k) * v
		}
		return u.i * v
	}
	start := 0
	if one == "z" {
		start = sum * v
	}
	w.writeLine("    float s[%d], t[%d];", v, v)
	w.writeLine("    tpg_cell<%d>(s, %s, %s + %d);", v, floatLiteral(q.slots[0].terms[0].C), one, start)
	w.writeLine("    tpg_mul<%d>(t, s, w + %d);", v, i*v)
	for n, slot := range q.slots {
		u, j := slot.uses[0], slot.terms[0].J-q.yAt
		sign := ""
		if u.minus {
			sign = "-"
		}
		f := "tpg_add"
		if n == 0 {
			f = "tpg_cell"
		}
		w.writeLine("    %s<%d>(d, %s%s, %s + %d);", f, v, sign, value(j), other, place(u))
		g := "tpd_dot"
		if u.minus {
			g = "tpd_less"
		}
		w.writeLine("    s%d = %s<%d>(s%d, t, %s + %d);", first+j, g, v, first+j, other, place(u))
	}
	w.writeLine("    tpg_mul<%d>(d, d, s);", v)
}
