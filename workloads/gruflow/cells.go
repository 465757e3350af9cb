package gruflow

// keptCells are n units of one row in a GRU that records the inputs of its backward pass. gx and gh have rows r, z
// and n, stride values apart; kept has rows r, z, n and u = W_hn h + b_hn, keptStride apart.
type keptCells struct {
	gx, gh, kept          []float32
	before, after         []float32 // old and new state; after is set for forward only
	dout, dh, chain, back []float32 // set for backward only; dout may be nil
	stride, keptStride, n int
}

// forward computes the recorded gates (kept) and the new state (after) from the products gx and gh and the old state
// (before).
func (c *keptCells) forward() { keepCells(c) }

// backward computes gx, gh and back from the cotangent of the new state (after), which is dh + chain + dout. back is
// the cotangent of the old state (before), without the part that goes through the products. refCellBack has the
// formulas.
func (c *keptCells) backward() { backCells(c) }

func (c *keptCells) tail(at int) keptCells {
	from := func(v []float32) []float32 {
		if v == nil {
			return nil
		}
		return v[at:]
	}
	return keptCells{from(c.gx), from(c.gh), from(c.kept), from(c.before), from(c.after),
		from(c.dout), from(c.dh), from(c.chain), from(c.back), c.stride, c.keptStride, c.n - at}
}

func keepGeneric(c *keptCells) {
	n := c.n
	gate := func(v []float32, stride, g int) []float32 { return v[g*stride:][:n] }
	r, z, m, u := gate(c.kept, c.keptStride, 0), gate(c.kept, c.keptStride, 1), gate(c.kept, c.keptStride, 2), gate(c.kept, c.keptStride, 3)
	for g, out := range [][]float32{r, z} {
		s := gate(c.gh, c.stride, g)
		for i, x := range gate(c.gx, c.stride, g) {
			out[i] = x + s[i]
		}
		sigmoidAll(out)
	}
	copy(u, gate(c.gh, c.stride, 2))
	for i, x := range gate(c.gx, c.stride, 2) {
		m[i] = x + float32(r[i]*u[i])
	}
	tanhAll(m)
	for i, v := range m {
		c.after[i] = v + float32(z[i]*(c.before[i]-v))
	}
}

// backGeneric is backward in plain Go. It rounds every product, like the assembly: the conversion to float32 prevents a
// fused multiply-add.
func backGeneric(c *keptCells) {
	n, p := c.n, c.keptStride
	r, z, m, u, h := c.kept[:n], c.kept[p:][:n], c.kept[2*p:][:n], c.kept[3*p:][:n], c.before[:n]
	xr, xz, xn := c.gx[:n], c.gx[c.stride:][:n], c.gx[2*c.stride:][:n]
	sr, sz, sn := c.gh[:n], c.gh[c.stride:][:n], c.gh[2*c.stride:][:n]
	dh, chain, back := c.dh[:n], c.chain[:n], c.back[:n]
	for i, r := range r {
		d, z, m := dh[i]+chain[i], z[i], m[i]
		if c.dout != nil {
			d += c.dout[i]
		}
		an := d * (1 - z) * (1 - float32(m*m))
		ar, az := an*u[i]*r*(1-r), d*(h[i]-m)*z*(1-z)
		xr[i], xz[i], xn[i] = ar, az, an
		sr[i], sz[i], sn[i] = ar, az, an*r
		back[i] = d * z
	}
}
