package so3

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseIrrep(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Irrep
	}{
		{"0e", Irrep{0, 1}}, {"1o", Irrep{1, -1}}, {"2e", Irrep{2, 1}}, {"3y", Irrep{3, -1}},
		{"4y", Irrep{4, 1}}, {"64o", Irrep{64, -1}},
	} {
		got, err := parseIrrep(tc.in)
		if err != nil || got != tc.want {
			t.Errorf("parseIrrep(%q) = %v, %v; want %v", tc.in, got, err, tc.want)
		}
	}
	for _, in := range []string{"", " ", "e", "1", "1x", "-1o", "+1o", "1.5e", "65e", "99999999999999999999o", "1 o", "1ee", "ℓo"} {
		if got, err := parseIrrep(in); err == nil {
			t.Errorf("parseIrrep(%q) = %v, want an error", in, got)
		}
	}
}

func TestParseIrreps(t *testing.T) {
	for _, tc := range []struct {
		in, printed  string
		dim, n, lmax int
	}{
		{"128x0e + 128x1o", "128x0e+128x1o", 512, 256, 1},
		{"0e+1o", "1x0e+1x1o", 4, 2, 1},
		{"", "", 0, 0, -1},
		{"  ", "", 0, 0, -1},
		{"2 x 3y+0x7e", "2x3o+0x7e", 14, 2, 3},
		{"32x0o+32x0e+32x1o+32x1e", "32x0o+32x0e+32x1o+32x1e", 256, 128, 1},
	} {
		got, err := ParseIrreps(tc.in)
		if err != nil {
			t.Errorf("ParseIrreps(%q): %v", tc.in, err)
			continue
		}
		if got.String() != tc.printed || got.Dim() != tc.dim || got.NumIrreps() != tc.n || got.LMax() != tc.lmax {
			t.Errorf("ParseIrreps(%q) = %q dim %d n %d lmax %d", tc.in, got, got.Dim(), got.NumIrreps(), got.LMax())
		}
	}
}

func TestParseIrrepsNamesTheBadTerm(t *testing.T) {
	for _, tc := range []struct{ in, mention string }{
		{"0e++1o", `term 2 ""`},
		{"0e+", `term 2 ""`},
		{"+0e", `term 1 ""`},
		{"0e+-3x1o", `term 2 "-3x1o": multiplicity "-3"`},
		{"0e+3x", `term 2 "3x": the name is empty`},
		{"x1o", `term 1 "x1o": multiplicity is missing`},
		{"3x4x1o", `term 1 "3x4x1o"`},
		{"1o+2x65e", `term 2 "2x65e": degree "65" is above the limit of 64`},
		{"99999999x0e", `multiplicity "99999999" is above the limit`},
		{"2.5x1o", `multiplicity "2.5"`},
		{"0e,1o", `term 1 "0e,1o"`},
		{"1p", "does not end in a parity"},
	} {
		got, err := ParseIrreps(tc.in)
		if err == nil {
			t.Errorf("ParseIrreps(%q) = %v, want an error", tc.in, got)
		} else if !strings.Contains(err.Error(), tc.mention) {
			t.Errorf("ParseIrreps(%q): %q does not mention %q", tc.in, err, tc.mention)
		}
	}
}

func FuzzParseIrreps(f *testing.F) {
	for _, s := range []string{"", "128x0e + 128x1o", "0e+1o", "0x3y", "-1x0e", "1x1x1e", "+", "9x9", "0e+ 2 x 64o"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		irs, err := ParseIrreps(s)
		if err != nil {
			return
		}
		again, err := ParseIrreps(irs.String())
		if err != nil || !again.Equal(irs) {
			t.Fatalf("%q parsed to %q, which parses to %v, %v", s, irs, again, err)
		}
		if irs.check() != nil || irs.Dim() < 0 || irs.LMax() > maxParseL {
			t.Fatalf("%q parsed to invalid irreps %v", s, irs)
		}
	})
}

func TestParsePrintRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		irs := drawIrreps(t, "irreps", 0, 6, 9, maxParseL)
		got, err := ParseIrreps(irs.String())
		if err != nil || !got.Equal(irs) {
			t.Fatalf("%v came back as %v, %v", irs, got, err)
		}
	})
}

// drawIrreps draws from..to blocks with multiplicity up to mul and degree up to lmax.
func drawIrreps(t *rapid.T, label string, from, to, mul, lmax int) Irreps {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) MulIrrep {
		return MulIrrep{
			Mul: rapid.IntRange(0, mul).Draw(t, "mul"),
			Ir:  Irrep{rapid.IntRange(0, lmax).Draw(t, "l"), rapid.SampledFrom([]int8{-1, 1}).Draw(t, "p")},
		}
	}), from, to).Draw(t, label)
}

func mustParse(t testing.TB, s string) Irreps {
	t.Helper()
	irs, err := ParseIrreps(s)
	if err != nil {
		t.Fatal(err)
	}
	return irs
}

func TestIrrepProductAndOrder(t *testing.T) {
	got := Irrep{1, -1}.Product(Irrep{2, 1})
	if want := []Irrep{{1, -1}, {2, -1}, {3, -1}}; !slices.Equal(got, want) {
		t.Errorf("1o x 2e = %v, want %v", got, want)
	}
	if got := (Irrep{3, -1}).Product(Irrep{3, -1}); len(got) != 7 || got[0] != (Irrep{0, 1}) || got[6] != (Irrep{6, 1}) {
		t.Errorf("3o x 3o = %v", got)
	}
	ordered := []Irrep{{0, -1}, {0, 1}, {1, -1}, {1, 1}, {2, -1}}
	for i, a := range ordered {
		for j, b := range ordered {
			if a.Less(b) != (i < j) {
				t.Errorf("%v < %v is %v", a, b, a.Less(b))
			}
		}
	}
}

func TestIrrepsQueries(t *testing.T) {
	irs := mustParse(t, "2x1o+3x0e+0x2e+1x1o+1x1e")
	if got, want := irs.Offsets(), []int{0, 6, 9, 9, 12}; !slices.Equal(got, want) {
		t.Errorf("offsets %v, want %v", got, want)
	}
	if got := irs.Count(Irrep{1, -1}); got != 3 {
		t.Errorf("count of 1o is %d, want 3", got)
	}
	if got := irs.Count(Irrep{2, 1}); got != 0 {
		t.Errorf("count of 2e is %d, want 0", got)
	}
	if got := HarmonicIrreps(3).String(); got != "1x0e+1x1o+1x2e+1x3o" {
		t.Errorf("harmonics to 3: %s", got)
	}
	if got := HarmonicIrreps(-1); len(got) != 0 {
		t.Errorf("harmonics to -1: %v", got)
	}
	if got := (Irrep{2, 0}).String(); got != "2(p=0)" {
		t.Errorf("an invalid parity prints as %q", got)
	}
	sorted, p, inv := irs.Sort()
	if got := sorted.String(); got != "3x0e+2x1o+1x1o+1x1e+0x2e" {
		t.Errorf("sorted %s", got)
	}
	if !slices.Equal(p, []int{1, 0, 4, 2, 3}) || !slices.Equal(inv, []int{1, 0, 3, 4, 2}) {
		t.Errorf("p %v inv %v", p, inv)
	}
	if got := sorted.Simplify().String(); got != "3x0e+3x1o+1x1e" {
		t.Errorf("simplified %s", got)
	}
	if got := irs.Simplify().String(); got != "2x1o+3x0e+1x1o+1x1e" {
		t.Errorf("simplify must not reorder: %s", got)
	}
}

func TestSortIsStablePermutation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		irs := drawIrreps(t, "irreps", 0, 40, 4, 2) // more than 12: short slices are insertion-sorted, stable by chance
		before := slices.Clone(irs)
		sorted, p, inv := irs.Sort()
		if !irs.Equal(before) {
			t.Fatal("Sort changed its receiver")
		}
		for i := range irs {
			if sorted[p[i]] != irs[i] || inv[p[i]] != i {
				t.Fatalf("block %d of %v: p %v inv %v", i, irs, p, inv)
			}
		}
		for j := 1; j < len(sorted); j++ {
			a, b := sorted[j-1].Ir, sorted[j].Ir
			if b.Less(a) || (a == b && inv[j-1] > inv[j]) {
				t.Fatalf("%v sorted to %v, inv %v", irs, sorted, inv)
			}
		}
		if s := sorted.Simplify(); s.Dim() != irs.Dim() || s.NumIrreps() != irs.NumIrreps() {
			t.Fatalf("simplify changed the size of %v: %v", sorted, s)
		}
	})
}
