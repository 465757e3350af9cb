package structure

import "math"

// gridMargin (angstrom) is the margin of a sampling grid around the atoms, in directions that are not periodic.
const gridMargin = 2.0

// frame is the box of a crystal. An edge in a periodic direction is the lattice vector. In other directions the box
// spans the atoms plus a margin, along a unit vector orthogonal to the other edges. A point inside is origin + f·rows
// with f in [0, 1).
type frame struct {
	rows     [3][3]float64 // box edges, angstrom
	inv      [3][3]float64 // fractional = p·inv - shift
	shift    [3]float64    // of the origin, in units of box edges
	origin   [3]float64    // angstrom
	periodic [3]bool
	height   [3]float64 // distance between opposite faces, angstrom
}

// newFrame builds the box of a crystal with a margin (angstrom) around the atoms in directions that are not periodic.
// It needs a periodic direction or an atom, which Validate ensures. Rows and inverses of periodic directions do not
// depend on the margin, so frames with different margins wrap a point to the same bits.
func newFrame(c *Crystal, margin float64) *frame {
	f := &frame{rows: completeRows(c.Lattice, c.Periodic), periodic: c.Periodic}
	f.inv = inverse(f.rows)
	for k := range 3 {
		f.height[k] = 1 / norm([3]float64{f.inv[0][k], f.inv[1][k], f.inv[2][k]})
	}
	for k := range 3 {
		if c.Periodic[k] {
			continue
		}
		e := f.rows[k]
		lo, hi := math.Inf(1), math.Inf(-1)
		for _, p := range c.Positions {
			s := dot(p, e)
			lo, hi = math.Min(lo, s), math.Max(hi, s)
		}
		length := hi - lo + 2*margin
		f.height[k] *= length
		f.shift[k] = (lo - margin) / length
		for j := range 3 {
			f.origin[j] += (lo - margin) * e[j]
			f.rows[k][j] *= length
			f.inv[j][k] /= length
		}
	}
	return f
}

// fractionalOf returns the coordinates of a point in units of the box edges. fractionalOf and wrapPoint use scalars,
// which stay in registers: with arrays they took a third of the time of a query with few neighbours.
func (f *frame) fractionalOf(x, y, z float64) (a, b, c float64) {
	return x*f.inv[0][0] + y*f.inv[1][0] + z*f.inv[2][0] - f.shift[0],
		x*f.inv[0][1] + y*f.inv[1][1] + z*f.inv[2][1] - f.shift[1],
		x*f.inv[0][2] + y*f.inv[1][2] + z*f.inv[2][2] - f.shift[2]
}

// wrapPoint moves a point into the box in periodic directions and returns it with its fractional coordinates. A point
// inside is returned bit for bit. A second pass corrects distant points that rounding left outside.
func (f *frame) wrapPoint(x, y, z float64) (_, _, _, a, b, c float64) {
	a, b, c = f.fractionalOf(x, y, z)
	for range 2 {
		n := [3]float64{f.boxOffset(0, a), f.boxOffset(1, b), f.boxOffset(2, c)}
		if n[0] == 0 && n[1] == 0 && n[2] == 0 {
			break
		}
		for k := range 3 {
			x -= n[k] * f.rows[k][0]
			y -= n[k] * f.rows[k][1]
			z -= n[k] * f.rows[k][2]
		}
		a, b, c = f.fractionalOf(x, y, z)
	}
	return x, y, z, a, b, c
}

// boxOffset returns which periodic copy of the box along k contains a fractional coordinate: 0 is the box itself. It is
// always 0 if direction k is not periodic.
func (f *frame) boxOffset(k int, at float64) float64 {
	if !f.periodic[k] {
		return 0
	}
	return math.Floor(at)
}

// wrap is wrapPoint for arrays.
func (f *frame) wrap(p [3]float64) (inside, fractional [3]float64) {
	x, y, z, a, b, c := f.wrapPoint(p[0], p[1], p[2])
	return [3]float64{x, y, z}, [3]float64{a, b, c}
}

// shiftImage returns a position moved by n box edges. float64 conversions prevent fused multiply-adds, so that the
// result has the same bits on every machine.
func (f *frame) shiftImage(p [3]float64, n [3]int) [3]float64 {
	for k := range 3 {
		for j := range 3 {
			p[j] += float64(float64(n[k]) * f.rows[k][j])
		}
	}
	return p
}

// Grid is a regular sampling grid over the cell of a crystal. It is read-only, so goroutines may share it.
type Grid struct {
	n     [3]int
	frame frame
}

// Grid places n[0] x n[1] x n[2] points over the cell; a count below one counts as one. In directions that are not
// periodic the grid covers the atoms with a margin of 2 angstrom on both sides.
func (c *Crystal) Grid(n [3]int) *Grid {
	g := &Grid{n: n, frame: *newFrame(c, gridMargin)}
	for k := range g.n {
		g.n[k] = max(g.n[k], 1)
	}
	return g
}

// Len returns the number of grid points.
func (g *Grid) Len() int { return g.n[0] * g.n[1] * g.n[2] }

// Point returns the cartesian position (angstrom) of grid point i = (ix*n1 + iy)*n2 + iz, at the fractional position
// (ix/n0, iy/n1, iz/n2). Indices outside [0, Len) wrap around.
func (g *Grid) Point(i int) [3]float64 {
	total := g.Len()
	i %= total
	if i < 0 {
		i += total
	}
	iz := i % g.n[2]
	i /= g.n[2]
	iy, ix := i%g.n[1], i/g.n[1]
	fr := [3]float64{
		float64(ix) / float64(g.n[0]),
		float64(iy) / float64(g.n[1]),
		float64(iz) / float64(g.n[2]),
	}
	p := cartesianOf(fr, g.frame.rows)
	for k := range p {
		p[k] += g.frame.origin[k]
	}
	return p
}

// completeRows returns the periodic lattice vectors and a unit vector for each direction that is not periodic. A unit
// vector is orthogonal to all other rows, and as close to its cartesian axis as the periodic vectors allow.
func completeRows(lattice [3][3]float64, periodic [3]bool) [3][3]float64 {
	var rows [3][3]float64
	var basis [][3]float64 // orthonormal basis of the rows so far
	for k := range 3 {
		if periodic[k] {
			rows[k] = lattice[k]
			if r := rejectSpan(lattice[k], basis); norm(r) > 0 {
				basis = append(basis, unit(r))
			}
		}
	}
	for k := range 3 {
		if periodic[k] {
			continue
		}
		var best [3]float64
		for step := range 3 {
			var axis [3]float64
			axis[(k+step)%3] = 1
			// The factor prefers the first axis if two are about equal.
			if r := rejectSpan(axis, basis); norm(r) > 1.01*norm(best) {
				best = r
			}
		}
		rows[k] = unit(best)
		basis = append(basis, rows[k])
	}
	return rows
}

// rejectSpan removes from v its projection on the span of an orthonormal basis.
func rejectSpan(v [3]float64, basis [][3]float64) [3]float64 {
	for _, b := range basis {
		s := dot(v, b)
		for j := range 3 {
			v[j] -= s * b[j]
		}
	}
	return v
}

func cartesianOf(f [3]float64, rows [3][3]float64) (p [3]float64) {
	for j := range 3 {
		p[j] = f[0]*rows[0][j] + f[1]*rows[1][j] + f[2]*rows[2][j]
	}
	return p
}

func dot(a, b [3]float64) float64 { return a[0]*b[0] + a[1]*b[1] + a[2]*b[2] }

func norm(a [3]float64) float64 { return math.Sqrt(dot(a, a)) }

func unit(a [3]float64) [3]float64 {
	n := norm(a)
	return [3]float64{a[0] / n, a[1] / n, a[2] / n}
}

func cross(a, b [3]float64) [3]float64 {
	return [3]float64{a[1]*b[2] - a[2]*b[1], a[2]*b[0] - a[0]*b[2], a[0]*b[1] - a[1]*b[0]}
}

func det(m [3][3]float64) float64 { return dot(m[0], cross(m[1], m[2])) }

// inverse returns the inverse: its column k is the cross product of the other two rows, divided by the volume.
func inverse(m [3][3]float64) (inv [3][3]float64) {
	v := det(m)
	for k := range 3 {
		r := cross(m[(k+1)%3], m[(k+2)%3])
		for j := range 3 {
			inv[j][k] = r[j] / v
		}
	}
	return inv
}
