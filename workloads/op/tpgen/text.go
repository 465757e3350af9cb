package tpgen

import (
	"fmt"
	"slices"
	"strings"
)

// Source is the .cu of a family: its parts, each once, and the kernel. It returns
// the parts too, in the order of their numbers in the kernel.
func Source(f Family) (text string, parts []*Part, err error) {
	specs, err := f.specs()
	if err != nil {
		return "", nil, err
	}
	text, parts = source("by workloads/op/tpgen/gen for "+layersOf(f), kernelPrefix+f.Name, specs)
	return text, parts, nil
}

const kernelPrefix = "tp_csr_"

func source(by, kernel string, specs []*Spec) (text string, parts []*Part) {
	var b, cases strings.Builder
	fmt.Fprintf(&b, "// Generated %s; do not edit.\n", by)
	fmt.Fprintf(&b, "#include \"tensorproduct_gen.cuh\"\n\n")
	numbers := Numbers{}
	for _, spec := range specs {
		for _, p := range spec.Parts {
			if n, fresh := numbers.of(p.identity()); fresh {
				p.write(&b, n, spec.TP.In2.Dim())
				fmt.Fprintf(&cases, "  TPG_CASE(%d)\n", n)
				parts = append(parts, p)
			}
		}
	}
	fmt.Fprintf(&b, "TPG_KERNEL(%s,\n%s)\nGPUPROF_KERNEL(%s)\n", kernel, strings.TrimRight(cases.String(), "\n"), kernel)
	return b.String(), parts
}

func layersOf(f Family) string {
	var all []string
	for _, l := range f.Layers {
		all = append(all, fmt.Sprintf("%s: %s x l <= %d -> %s", l.Preset, l.In, l.LMax, l.Target))
	}
	return strings.Join(all, "; ")
}

// Numbers gives parts of the same code the same number.
type Numbers map[string]int

func (n Numbers) of(identity string) (number int, fresh bool) {
	number, known := n[identity]
	if !known {
		number = len(n)
		n[identity] = number
	}
	return number, !known
}

// identity is all that a part's code depends on.
func (p *Part) identity() string {
	s := fmt.Sprint(p.L1, p.Copies, p.Mul, p.Stride, p.Batch, p.Ahead, p.PairedOut, p.hold, p.columns)
	for _, q := range p.paths {
		s += fmt.Sprint(q.triple)
	}
	return s
}

// float is a literal that is exactly v.
func float(v float32) string {
	return fmt.Sprintf("%sf", strings.Replace(fmt.Sprintf("%x", float64(v)), "p+00", "p+0", 1))
}

// writer writes lines of a part, indented.
type writer struct {
	*strings.Builder
	p *Part
}

func (w writer) line(format string, args ...any) { fmt.Fprintf(w, "  "+format+"\n", args...) }

// write writes the part as a type with its numbers and its four functions.
func (p *Part) write(b *strings.Builder, number, sh int) {
	w := writer{b, p}
	fmt.Fprintf(b, "// l1 = %d:", p.L1)
	for _, q := range p.paths {
		fmt.Fprintf(b, " (%d,%d)", q.l2, q.l3)
	}
	fmt.Fprintf(b, "\nstruct tpg_part%d {\n", number)
	w.line("enum { COPIES = %d, D1 = %d, PATHS = %d, SUMS = %d, STRIDE = %d, BATCH = %d, SH = %d, STEP = %d };",
		p.Copies, 2*p.L1+1, len(p.paths), p.Sums, p.Stride, p.Batch, sh, p.Mul)
	w.build()
	w.first()
	w.edge()
	w.out()
	b.WriteString("};\n\n")
}

// build is M of one edge, its cells as the paths use them.
func (w writer) build() {
	w.line("GP_FN void build(float *m, const float *y, float scale) {")
	var cells []string
	written := 0
	flush := func(all bool) {
		for len(cells) >= 4 || all && len(cells) > 0 {
			four := append(slices.Clone(cells[:min(4, len(cells))]), "0.0f", "0.0f", "0.0f")[:4]
			w.line("  tpg_put(m + %d, %s);", written, strings.Join(four, ", "))
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
					w.line("  float y%d = __ldg(y + %d) * scale;", t.J, t.J)
				}
			}
			text := fmt.Sprintf("%s * y%d", float(s.terms[0].C), s.terms[0].J)
			for _, t := range s.terms[1:] {
				text = fmt.Sprintf("gp_fma(%s, y%d, %s)", float(t.C), t.J, text)
			}
			w.line("  float c%d = %s;", n, text)
			cells = append(cells, fmt.Sprintf("c%d", n))
			n++
			flush(false)
		}
	}
	flush(true)
	w.line("}")
}

// first reads x and the weights with which the edges begin.
func (w writer) first() {
	w.line("GP_FN void first(float *x, float *w, const float *xp, const float *wp) {")
	for i := range 2*w.p.L1 + 1 {
		w.line("  tpg_read<%d>(x + %d, xp + %d);", w.p.Copies, i*w.p.Copies, i*w.p.Mul)
	}
	for i := range w.p.Ahead {
		if w.p.local {
			break
		}
		w.line("  tpg_read<%d>(w + %d, wp + %d);", w.p.Copies, i*w.p.Copies, w.p.columns[i])
	}
	w.line("}")
}

// edge adds one edge. x and the weights of the first paths are there; it leaves
// those of the next edge, whose rows are xn and wn. A branch that is never taken may stand behind their
// loads; see gradWriter.edge.
func (w writer) edge() {
	p := w.p
	w.line("GP_FN void edge(float *a, float *x, float *w, const float *m, const float *wp, const float *xn, const float *wn, int never) {")
	at := 0
	sums := p.sumsAt()
	w.taken()
	for i, q := range p.paths {
		sum := sums[i]
		side, n := q.side()
		w.line("  { // (%d,%d,%d)", q.l1, q.l2, q.l3)
		w.line("    float t[%d];", n*p.Copies)
		if side == onX {
			for c := range n {
				w.line("    tpg_mul<%d>(t + %d, x + %d, w + %d);", p.Copies, c*p.Copies, c*p.Copies, i*p.Copies)
			}
			w.ahead(i)
			if i == len(p.paths)-1 {
				w.nextX()
			}
		}
		started := map[int]bool{}
		for k, s := range q.slots {
			if at%4 == 0 {
				w.line("    float4 m%d = *(const float4 *)(m + %d);", at/4, at)
			} else if k == 0 {
				w.line("    float4 m%d = *(const float4 *)(m + %d);", at/4, at/4*4)
			}
			cell := fmt.Sprintf("m%d.%c", at/4, "xyzw"[at%4])
			at++
			if side == onCells {
				w.line("    tpg_cell<%d>(t + %d, %s, w + %d);", p.Copies, k*p.Copies, cell, i*p.Copies)
			}
			for _, u := range s.uses {
				sign := ""
				if u.minus {
					sign = "-"
				}
				switch side {
				case onX:
					w.line("    tpg_add<%d>(a + %d, %s%s, t + %d);", p.Copies, (sum+u.k)*p.Copies, sign, cell, u.i*p.Copies)
				case onCells:
					f := "tpg_fma"
					if u.minus {
						f = "tpg_sub"
					}
					w.line("    %s<%d>(a + %d, t + %d, x + %d);", f, p.Copies, (sum+u.k)*p.Copies, k*p.Copies, u.i*p.Copies)
				case onOut:
					f := "tpg_add"
					if !started[u.k] {
						f = "tpg_cell"
						started[u.k] = true
					}
					w.line("    %s<%d>(t + %d, %s%s, x + %d);", f, p.Copies, u.k*p.Copies, sign, cell, u.i*p.Copies)
				}
			}
		}
		if side == onOut {
			for k := range n {
				w.line("    tpg_fma<%d>(a + %d, w + %d, t + %d);", p.Copies, (sum+k)*p.Copies, i*p.Copies, k*p.Copies)
			}
		}
		if side != onX {
			w.ahead(i)
			if i == len(p.paths)-1 {
				w.nextX()
			}
		}
		w.line("  }")
	}
	w.line("}")
}

// ahead reads the weights of the path that comes Ahead paths after number i.
func (w writer) ahead(i int) {
	p := w.p
	if p.local {
		return
	}
	to, from := i+p.Ahead, "wp"
	if to >= len(p.paths) {
		to, from = to-len(p.paths), "wn"
	}
	w.line("    tpg_read<%d>(w + %d, %s + %d);", p.Copies, to*p.Copies, from, p.columns[to])
}

func (w writer) nextX() {
	for c := range 2*w.p.L1 + 1 {
		w.line("    tpg_read<%d>(x + %d, xn + %d);", w.p.Copies, c*w.p.Copies, c*w.p.Mul)
	}
	if w.p.hold {
		w.line("    if (never == -1) return; // see the generator: it keeps loads where they are")
	}
}

// sumsAt is where every path's sums begin.
func (p *Part) sumsAt() []int {
	var at []int
	n := 0
	for _, q := range p.paths {
		at = append(at, n)
		n += q.d3()
	}
	return at
}

// out writes the sums of a row and starts again from zero. places are where a
// lane's copies begin in a row for every path, -1 where it has none.
func (w writer) out() {
	p := w.p
	vector := 1
	if p.PairedOut {
		vector = p.Copies
	}
	w.line("GP_FN void out(float *a, float *row, const int *places) {")
	sums := p.sumsAt()
	for i, q := range p.paths {
		w.line("  tpg_write<%d, %d>(a + %d, row, places[%d], %d, %d);", p.Copies, vector, sums[i]*p.Copies, i, q.d3(), p.Mul)
	}
	w.line("}")
}
