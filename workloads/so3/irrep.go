// Package so3 holds the representation theory of O(3) for the equivariant workloads: irreps and their strings, real
// Wigner 3j symbols, real spherical harmonics, Wigner D matrices and tensor products. It is the reference for faster
// kernels, so everything is float64 and derived from first principles.
//
// Conventions follow e3nn: the polar axis is y, the components of l=1 are (x, y, z), index l+m runs over m = -l..l,
// and blocks of multiplicity mul are stored as "mul_ir", element (u, i) at u*(2l+1)+i.
package so3

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/gpuprof/gpuprof"
)

// MaxL is the highest degree of 3j symbols, harmonics and D matrices; accuracy tests go up to it.
const MaxL = 8

// maxParseL and maxParseMul limit a parsed degree and multiplicity, so that a typing error does not become a huge
// allocation.
const (
	maxParseL   = 64
	maxParseMul = 1 << 24
)

// Irrep is an irreducible representation of O(3): degree L >= 0 and parity P under inversion, +1 (even) or -1 (odd).
type Irrep struct {
	L int
	P int8
}

// Dim returns 2L+1.
func (a Irrep) Dim() int { return 2*a.L + 1 }

// String returns e3nn's name of the irrep, such as "1o".
func (a Irrep) String() string {
	switch a.P {
	case 1:
		return strconv.Itoa(a.L) + "e"
	case -1:
		return strconv.Itoa(a.L) + "o"
	}
	return fmt.Sprintf("%d(p=%d)", a.L, a.P)
}

// Less orders irreps by degree, then parity, odd first: 0o < 0e < 1o < 1e.
func (a Irrep) Less(b Irrep) bool { return a.compare(b) < 0 }

func (a Irrep) compare(b Irrep) int { return cmp.Or(cmp.Compare(a.L, b.L), cmp.Compare(a.P, b.P)) }

// Product returns the irreps of the tensor product of a and b: all l from |a.L-b.L| to a.L+b.L, with parity a.P*b.P.
func (a Irrep) Product(b Irrep) []Irrep {
	lo := max(a.L-b.L, b.L-a.L)
	out := make([]Irrep, 0, a.L+b.L-lo+1)
	for l := lo; l <= a.L+b.L; l++ {
		out = append(out, Irrep{L: l, P: a.P * b.P})
	}
	return out
}

// check returns the reason why a is invalid, or nil.
func (a Irrep) check() error {
	if a.L < 0 {
		return gpuprof.Errorf(nil, "degree l=%d is negative", a.L).WithFix("use l >= 0")
	}
	if a.P != 1 && a.P != -1 {
		return gpuprof.Errorf(nil, "parity %d of l=%d is neither +1 nor -1", a.P, a.L).WithFix("set P to 1 (even) or -1 (odd)")
	}
	return nil
}

// parseIrrep reads a name such as "1o" or "2e"; the suffix "y" means the parity of spherical harmonics, (-1)^l.
func parseIrrep(name string) (Irrep, error) {
	if name == "" {
		return Irrep{}, gpuprof.Errorf(nil, "the name is empty").WithFix("write a degree and a parity, such as 1o")
	}
	digits, suffix := name[:len(name)-1], name[len(name)-1]
	var p int8
	switch suffix {
	case 'e':
		p = 1
	case 'o':
		p = -1
	case 'y': // set below, when l is known
	default:
		return Irrep{}, gpuprof.Errorf(nil, "%q does not end in a parity", name).WithFix("end it with e (even), o (odd) or y ((-1)^l)")
	}
	l, err := parseNumber(digits, maxParseL)
	if err != nil {
		return Irrep{}, fmt.Errorf("degree %w", err)
	}
	if suffix == 'y' {
		p = harmonicParity(l)
	}
	return Irrep{L: l, P: p}, nil
}

// parseNumber reads an unsigned decimal number up to limit. Unlike strconv.Atoi it rejects "+3".
func parseNumber(s string, limit int) (int, error) {
	if s == "" {
		return 0, gpuprof.Errorf(nil, "is missing").WithFix("write a whole number from 0 to %d", limit)
	}
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, fmt.Errorf("%q is not a whole number from 0 to %d", s, limit)
		}
	}
	n, err := strconv.Atoi(s)
	if err != nil || n > limit {
		return 0, fmt.Errorf("%q is above the limit of %d", s, limit)
	}
	return n, nil
}

func harmonicParity(l int) int8 {
	if l%2 == 0 {
		return 1
	}
	return -1
}
