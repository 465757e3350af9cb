package so3

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"sync"

	"github.com/gpuprof/gpuprof"
)

// CG lists the non-zeros of a real Wigner 3j symbol, in row-major order. SparseCG's result is shared: do not change it.
type CG struct {
	L1, L2, L3 int
	Entries    []CGEntry
}

// CGEntry is one non-zero C[I,J,K] with I < 2*L1+1, J < 2*L2+1, K < 2*L3+1.
type CGEntry struct {
	I, J, K int
	C       float64
}

// wignerCache holds the computed *wignerSymbol values by degrees, a [3]int.
var wignerCache sync.Map

type wignerSymbol struct {
	dense  []float64
	sparse CG
}

// Wigner3j returns the real Wigner 3j symbol in e3nn's basis as a dense row-major array [2*l1+1][2*l2+1][2*l3+1] with
// Frobenius norm 1, owned by the caller. It returns an error if the degrees break the triangle rule |l1-l2| <= l3 <=
// l1+l2 or are outside 0..MaxL.
func Wigner3j(l1, l2, l3 int) ([]float64, error) {
	sym, err := lookUpSymbol(l1, l2, l3)
	if err != nil {
		return nil, err
	}
	return slices.Clone(sym.dense), nil
}

// SparseCG returns the non-zeros of Wigner3j(l1, l2, l3). The zeros are exact, because terms that cancel are the same
// rational number with opposite signs.
func SparseCG(l1, l2, l3 int) (*CG, error) {
	sym, err := lookUpSymbol(l1, l2, l3)
	if err != nil {
		return nil, err
	}
	return &sym.sparse, nil
}

func lookUpSymbol(l1, l2, l3 int) (*wignerSymbol, error) {
	for _, l := range [3]int{l1, l2, l3} {
		if l < 0 || l > MaxL {
			return nil, fmt.Errorf("computing Wigner 3j (%d,%d,%d): degree %d is outside 0..%d", l1, l2, l3, l, MaxL)
		}
	}
	if !obeysTriangle(l1, l2, l3) {
		return nil, gpuprof.Errorf(nil, "computing Wigner 3j (%d,%d,%d): the triangle rule |l1-l2| <= l3 <= l1+l2 does not hold", l1, l2, l3).WithFix("choose l3 from %d to %d", max(l1-l2, l2-l1), l1+l2)
	}
	key := [3]int{l1, l2, l3}
	sym, ok := wignerCache.Load(key)
	if !ok {
		sym, _ = wignerCache.LoadOrStore(key, newSymbol(l1, l2, l3))
	}
	return sym.(*wignerSymbol), nil
}

func obeysTriangle(l1, l2, l3 int) bool {
	return l3 <= l1+l2 && l1 <= l2+l3 && l2 <= l1+l3
}

func newSymbol(l1, l2, l3 int) *wignerSymbol {
	dense := realWigner(l1, l2, l3)
	sym := &wignerSymbol{dense: dense, sparse: CG{L1: l1, L2: l2, L3: l3}}
	d2, d3 := 2*l2+1, 2*l3+1
	for at, c := range dense {
		if c != 0 {
			sym.sparse.Entries = append(sym.sparse.Entries, CGEntry{I: at / (d2 * d3), J: at / d3 % d2, K: at % d3, C: c})
		}
	}
	return sym
}

// realWigner transforms the complex coefficients to the real basis by the matrices Q of phaseExponent. Each row of Q
// has one (m = 0) or two non-zeros, at a = -|m| and |m|, so each coefficient contributes to at most 8 values. The
// divisor is the Frobenius norm, because Q is unitary and the complex coefficients have norm 1 for every m3:
//
//	C[a,b,c] = Re sum Q1[m1,a] Q2[m2,b] conj(Q3[m3,c]) <l1 m1 l2 m2|l3 m3> / sqrt(2*l3+1)
func realWigner(l1, l2, l3 int) []float64 {
	d2, d3 := 2*l2+1, 2*l3+1
	out := make([]float64, (2*l1+1)*d2*d3)
	var fact factorials
	for m1 := -l1; m1 <= l1; m1++ {
		for m2 := -l2; m2 <= l2; m2++ {
			m3 := m1 + m2
			if m3 < -l3 || m3 > l3 {
				continue
			}
			c := clebschGordan(&fact, l1, m1, l2, m2, l3)
			if c == 0 {
				continue
			}
			c *= halfPower(m1, m2, m3) / math.Sqrt(float64(d3))
			for _, a := range realColumns(m1) {
				for _, b := range realColumns(m2) {
					for _, k := range realColumns(m3) {
						e := phaseExponent(l1, m1, a) + phaseExponent(l2, m2, b) - phaseExponent(l3, m3, k)
						out[((l1+a)*d2+l2+b)*d3+l3+k] += c * realPartOfIPower(e)
					}
				}
			}
		}
	}
	return out
}

// realColumns lists the real components, as indices, into which the complex component m mixes.
func realColumns(m int) []int {
	switch {
	case m == 0:
		return []int{0}
	case m < 0:
		return []int{m, -m}
	}
	return []int{-m, m}
}

// phaseExponent returns the power of i in Q[m,a] = (-i)^l q[m,a], without the factor 1/sqrt(2) for m != 0 (see
// halfPower). Integer powers keep the arithmetic exact, so that cancelling terms give 0. The values of q are:
//
//	m < 0: q[m,|m|] = 1       q[m,-|m|] = -i
//	m = 0: q[0,0]   = 1
//	m > 0: q[m,m]   = (-1)^m  q[m,-m]   = i (-1)^m
func phaseExponent(l, m, a int) int {
	e := 3 * l
	switch {
	case m < 0 && a < 0:
		e += 3
	case m > 0 && a > 0:
		e += 2 * m
	case m > 0:
		e += 1 + 2*m
	}
	return e
}

func realPartOfIPower(e int) float64 {
	switch ((e % 4) + 4) % 4 {
	case 0:
		return 1
	case 2:
		return -1
	}
	return 0
}

// halfPower returns the product of one factor 1/sqrt(2) for each non-zero m in ms.
func halfPower(ms ...int) float64 {
	n := 0
	for _, m := range ms {
		if m != 0 {
			n++
		}
	}
	f := 1 / float64(int(1)<<(n/2))
	if n%2 == 1 {
		f /= math.Sqrt2
	}
	return f
}

type factorials struct{ table []*big.Int }

func (f *factorials) factorial(n int) *big.Int {
	if len(f.table) == 0 {
		f.table = []*big.Int{big.NewInt(1)}
	}
	for k := len(f.table); k <= n; k++ {
		f.table = append(f.table, new(big.Int).Mul(f.table[k-1], big.NewInt(int64(k))))
	}
	return f.table[n]
}

func (f *factorials) product(ns ...int) *big.Int {
	p := big.NewInt(1)
	for _, n := range ns {
		p.Mul(p, f.factorial(n))
	}
	return p
}

// clebschGordan evaluates Racah's formula for <l1 m1 l2 m2|l3 m1+m2> with the Condon-Shortley phase. The value is
// s*sqrt(r) with rational s and r. It computes s^2*r exactly and rounds once, by a 128-bit square root.
func clebschGordan(f *factorials, l1, m1, l2, m2, l3 int) float64 {
	m3 := m1 + m2
	sum := new(big.Rat)
	lo := max(0, l2-l3-m1, l1-l3+m2)
	hi := min(l1+l2-l3, l1-m1, l2+m2)
	for k := lo; k <= hi; k++ {
		den := f.product(k, l1+l2-l3-k, l1-m1-k, l2+m2-k, l3-l2+m1+k, l3-l1-m2+k)
		num := big.NewInt(1)
		if k%2 == 1 {
			num.SetInt64(-1)
		}
		sum.Add(sum, new(big.Rat).SetFrac(num, den))
	}
	sign := sum.Sign()
	if sign == 0 {
		return 0
	}
	num := f.product(l3+l1-l2, l3-l1+l2, l1+l2-l3, l3+m3, l3-m3, l1-m1, l1+m1, l2-m2, l2+m2)
	num.Mul(num, big.NewInt(int64(2*l3+1)))
	square := new(big.Rat).SetFrac(num, f.factorial(l1+l2+l3+1))
	square.Mul(square, sum).Mul(square, sum)
	root := new(big.Float).SetPrec(128).SetRat(square)
	value, _ := root.Sqrt(root).Float64()
	return float64(sign) * value
}
