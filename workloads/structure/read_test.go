package structure_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof/workloads/structure"
)

// sameCrystal compares everything but the name, to rounding.
func sameCrystal(got, want *structure.Crystal, slack float64) error {
	if got.Periodic != want.Periodic || !slices.Equal(got.Species, want.Species) || len(got.Positions) != len(want.Positions) {
		return fmt.Errorf("periodic %v, species %v, %d positions; want %v, %v, %d",
			got.Periodic, got.Species, len(got.Positions), want.Periodic, want.Species, len(want.Positions))
	}
	rows := append(got.Lattice[:], got.Positions...)
	for i, w := range append(want.Lattice[:], want.Positions...) {
		if d := length([3]float64{rows[i][0] - w[0], rows[i][1] - w[1], rows[i][2] - w[2]}); !(d <= slack) {
			return fmt.Errorf("vector %d (lattice first) is %v, want %v", i, rows[i], w)
		}
	}
	return nil
}

func TestReadFixtures(t *testing.T) {
	all := [3]bool{true, true, true}
	cubic := [3][3]float64{{4, 0, 0}, {0, 4, 0}, {0, 0, 4}}
	salt := func(na, cl string) *structure.Crystal {
		return &structure.Crystal{Lattice: cubic, Periodic: all, Species: []string{na, cl}, Positions: [][3]float64{{}, {2, 2, 2}}}
	}
	negative := salt("Na", "Cl")
	negative.Lattice = [3][3]float64{{0, 4, 0}, {4, 0, 0}, {0, 0, 4}}
	cases := map[string]*structure.Crystal{
		"hfo2_ase.extxyz": structure.HfO2(),
		"POSCAR_hfo2":     structure.HfO2(),
		"water.xyz": {Species: []string{"O", "H", "H"},
			Positions: [][3]float64{{0, 0, 0.11779}, {0, 0.755453, -0.471161}, {0, -0.755453, -0.471161}}},
		"slab.extxyz": {Lattice: [3][3]float64{{3, 0, 0}, {1.5, 2.5, 0}, {}}, Periodic: [3]bool{true, true, false},
			Species: []string{"Ni", "Ni"}, Positions: [][3]float64{{0, 0, 10}, {1.5, 0.8, 12}}},
		"array.extxyz": {Lattice: [3][3]float64{{4, 0, 0}, {0, 4, 0}, {0, 0.5, 4}}, Periodic: all,
			Species: []string{"Na", "Cl"}, Positions: [][3]float64{{}, {2, 2, 2}}},
		"braces.extxyz": {Lattice: [3][3]float64{{4, 0, 0}, {0, 5, 0}, {0, 0, 6}}, Periodic: all,
			Species: []string{"Po"}, Positions: [][3]float64{{0.5, 0.5, 0.5}}},
		"POSCAR_vasp4":         salt("Na", "Cl"),
		"POSCAR_vasp4_unnamed": salt("X1", "X2"),
		"CONTCAR_selective":    salt("Na", "Cl"),
		"negative.vasp":        negative,
		"threescale.poscar":    salt("Na", "Cl"),
		"crlf.xyz":             {Lattice: cubic, Periodic: all, Species: []string{"Po"}, Positions: [][3]float64{{1.5, 2.5, 3.5}}},
		"crlf.vasp":            {Lattice: cubic, Periodic: all, Species: []string{"Po"}, Positions: [][3]float64{{2, 1, 3}}},
	}
	for file, want := range cases {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join("testdata", file)
			got, err := structure.ReadFile(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			if got.Name != file {
				t.Errorf("name %q, want %q", got.Name, file)
			}
			// The hafnia files hold eight decimals, as ASE writes them.
			if err := sameCrystal(got, want, 2e-8); err != nil {
				t.Error(err)
			}
			// Under a name that says nothing, the content must be enough.
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			plain := filepath.Join(t.TempDir(), "structure.dat")
			if err := os.WriteFile(plain, data, 0o600); err != nil {
				t.Fatal(err)
			}
			byContent, err := structure.ReadFile(t.Context(), plain)
			if err != nil {
				t.Fatal(err)
			}
			if err := sameCrystal(byContent, got, 0); err != nil {
				t.Error(err)
			}
		})
	}
	files, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, tested := cases[f.Name()]; !tested && !f.IsDir() && f.Name() != ".gitattributes" {
			t.Errorf("testdata/%s has no test", f.Name())
		}
	}
}

func TestReadFileRefuses(t *testing.T) {
	dir := t.TempDir()
	_, err := structure.ReadFile(t.Context(), filepath.Join(dir, "no.xyz"))
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "no.xyz") {
		t.Errorf("missing file: %v", err)
	}
	if _, err = structure.ReadFile(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("directory: %v", err)
	}
	unknown := filepath.Join(dir, "unknown.cif")
	for _, content := range []string{"data_HfO2\n_cell_length_a 5.12\n", "", "\x00\xff\x00"} {
		if err := os.WriteFile(unknown, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := structure.ReadFile(t.Context(), unknown); err == nil || !strings.Contains(err.Error(), "neither like XYZ") || !strings.Contains(err.Error(), "unknown.cif") {
			t.Errorf("content %q: %v", content, err)
		}
	}
	broken := filepath.Join(dir, "POSCAR")
	if err := os.WriteFile(broken, []byte("comment\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := structure.ReadFile(t.Context(), broken); err == nil || !strings.Contains(err.Error(), broken+", line 2") {
		t.Errorf("broken POSCAR: %v", err)
	}
}

// badCase is malformed input with the line the error must name.
type badCase struct {
	name, text string
	line       int
	want       string
}

type reader func(r io.Reader, name string) (*structure.Crystal, error)

func checkBad(t *testing.T, read reader, cases []badCase) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c, err := read(strings.NewReader(tc.text), "dir/bad.file")
			var e *structure.FormatError
			if c != nil || !errors.As(err, &e) {
				t.Fatalf("got %v, error %v; want a FormatError", c, err)
			}
			if e.Line != tc.line || !strings.Contains(e.Problem, tc.want) || e.Fix == "" {
				t.Errorf("error %q; want line %d and %q", err, tc.line, tc.want)
			}
			if prefix := fmt.Sprintf("reading structure dir/bad.file, line %d: ", tc.line); !strings.HasPrefix(err.Error(), prefix) {
				t.Errorf("error %q does not begin with %q", err, prefix)
			}
		})
	}
}

func TestReadExtXYZRefuses(t *testing.T) {
	long := strings.Repeat("x", 1<<20+10)
	const cubic = `Lattice="4 0 0 0 4 0 0 0 4" `
	checkBad(t, structure.ReadExtXYZ, []badCase{
		{"empty", "", 1, "ends where the number of atoms"},
		{"count text", "three\n\n", 1, `"three", not a whole number`},
		{"count fraction", "2.5\n\n", 1, "not a whole number"},
		{"count negative", "-3\n\n", 1, "negative"},
		{"count zero", "0\n\n", 1, "is 0"},
		{"count claimed", "10000001\n\nC 0 0 0\n", 1, "limit is 10000000"},
		{"count beyond int", "99999999999999999999\n\nC 0 0 0\n", 1, "limit is 10000000"},
		{"no comment", "1", 2, "ends where the comment line"},
		{"more atoms than announced", "1\n\nC 0 0 0\n\nC 1 1 1\n", 5, "line 1 announces 1 atoms"},
		{"short of atoms", "2\n\nC 0 0 0\n", 4, "ends where atom 2 of 2"},
		{"claims without data", "9999999\n\n", 3, "ends where atom 1 of 9999999"},
		{"three columns", "2\n\nC 0 0 0\nC 0 0\n", 4, "expected 4 columns (symbol x y z), found 3"},
		{"long symbol", "1\n\nC 0 0 0\xff" + strings.Repeat("9", 80) + "\n", 3, "…\", not a finite"},
		{"blank atom", "2\n\nC 0 0 0\n\n", 4, "found 0"},
		{"coordinate text", "1\n\nC 0 zero 0\n", 3, `"zero", not a finite number`},
		{"NaN", "1\n\nC 0 NaN 0\n", 3, "not a finite number"},
		{"infinite", "1\n\nC 0 0 -Inf\n", 3, "not a finite number"},
		{"overflow", "1\n\nC 0 0 1e999\n", 3, "not a finite number"},
		{"hexadecimal", "1\n\nC 0 0 0x1p3\n", 3, "not a finite number"},
		{"far", "1\n\nC 0 0 1e9\n", 3, "beyond 1e+08 angstrom"},
		{"atomic number", "1\n\n119 0 0 0\n", 3, "no element with the number 119"},
		{"CRLF", "2\r\n\r\nC 0 0 0\r\nC 0 0\r\n", 4, "found 3"},
		{"long comment", "1\n" + long + "\nC 0 0 0\n", 2, "longer than 1048576 bytes"},
		{"long atom", "1\n\nC 0 0 0 " + long + "\n", 3, "longer than"},
		{"lattice eight", "1\nLattice=\"4 0 0 0 4 0 0 0\"\nC 0 0 0\n", 2, "Lattice has 8 numbers"},
		{"lattice text", "1\nLattice=\"4 0 0 0 b 0 0 0 4\"\nC 0 0 0\n", 2, `"b", not a finite number`},
		{"lattice NaN", "1\nLattice=\"4 0 0 0 nan 0 0 0 4\"\nC 0 0 0\n", 2, "not a finite number"},
		{"lattice singular", "1\nLattice=\"4 0 0 4 0 0 0 0 4\"\nC 0 0 0\n", 2, "linearly dependent"},
		{"lattice zero row", "1\nLattice=\"4 0 0 0 4 0 0 0 0\" pbc=\"T T T\"\nC 0 0 0\n", 2, "vector c is shorter"},
		{"lattice twice", "1\n" + cubic + cubic + "\nC 0 0 0\n", 2, "lattice twice"},
		{"lattice unclosed", "1\nLattice=\"4 0 0 0 4 0 0 0 4\nC 0 0 0\n", 2, "never closed"},
		{"bracket unclosed", "1\nLattice=[[4,0,0],[0,4,0],[0,0,4]\nC 0 0 0\n", 2, "never closed"},
		{"pbc letters", "1\n" + cubic + "pbc=\"T T X\"\nC 0 0 0\n", 2, `pbc has "X"`},
		{"pbc two", "1\n" + cubic + "pbc=\"T T\"\nC 0 0 0\n", 2, "pbc has 2 values"},
		{"pbc alone", "1\npbc=\"T T T\"\nC 0 0 0\n", 2, "no Lattice"},
		{"properties parts", "1\nProperties=species:S:1:pos:R\nC 0 0 0\n", 2, "5 parts"},
		{"properties type", "1\nProperties=species:S:1:pos:R:3:q:Q:1\nC 0 0 0 1\n", 2, `type "Q"`},
		{"properties count", "1\nProperties=species:S:1:pos:R:3:q:R:x\nC 0 0 0 1\n", 2, `count "x"`},
		{"properties huge", "1\nProperties=species:S:1:q:R:1048576:pos:R:3\nC 0 0 0 1\n", 2, "more than 1048576 columns"},
		{"properties pos", "1\nProperties=species:S:1:pos:R:2\nC 0 0\n", 2, "pos:R:2"},
		{"properties species", "1\nProperties=species:R:1:pos:R:3\nC 0 0 0\n", 2, "species:R:1"},
		{"no species", "1\nProperties=id:I:1:pos:R:3\n1 0 0 0\n", 2, "names no species"},
		{"no pos", "1\nProperties=species:S:1:force:R:3\nC 0 0 0\n", 2, "or no pos column"},
		{"too few columns", "1\nProperties=species:S:1:pos:R:3:q:R:1\nC 0 0 0\n", 3, "expected 5 columns as Properties says, found 4"},
		{"too many columns", "1\nProperties=species:S:1:pos:R:3\nC 0 0 0 1\n", 3, "expected 4 columns as Properties says, found 5"},
		{"Z text", "1\nProperties=Z:I:1:pos:R:3\nC 0 0 0\n", 3, "atomic number is \"C\""},
	})
}

func TestReadPOSCARRefuses(t *testing.T) {
	const cell = "c\n1\n4 0 0\n0 4 0\n0 0 4\n"
	long := strings.Repeat("x", 1<<20+10)
	checkBad(t, structure.ReadPOSCAR, []badCase{
		{"empty", "", 1, "ends where the comment line"},
		{"no scale", "c\n", 2, "ends where the scale factor"},
		{"scale text", "c\none\n", 2, `"one", not a finite number`},
		{"scale zero", "c\n0.0\n", 2, "scale factor is 0"},
		{"scale two", "c\n1 1\n", 2, "found 2"},
		{"scale none", "c\n\n", 2, "found 0"},
		{"scale three negative", "c\n1 -1 1\n", 2, "scale factor is -1"},
		{"scale infinite", "c\ninf\n", 2, "not a finite number"},
		{"vector short", "c\n1\n4 0 0\n0 4\n", 4, "expected 3 numbers for lattice vector b, found 2"},
		{"vector text", "c\n1\n4 0 0\n0 4 0\n0 0 c\n", 5, "lattice vector c is \"c\""},
		{"vector missing", "c\n1\n4 0 0\n", 4, "ends where lattice vector b"},
		{"singular", "c\n1\n4 0 0\n8 0 0\n0 0 4\n", 5, "linearly dependent"},
		{"singular with volume", "c\n-10\n4 0 0\n8 0 0\n0 0 4\n", 5, "linearly dependent"},
		{"scaled away", "c\n1e-9\n4 0 0\n0 4 0\n0 0 4\n", 5, "shorter than"},
		{"scaled beyond", "c\n1e300\n4e99 0 0\n0 4 0\n0 0 4\n", 5, "not finite numbers within"},
		{"no species", cell, 6, "ends where the species or the atom counts"},
		{"blank species", cell + "\n1\n", 6, "empty line"},
		{"species number", cell + "0.5 0.5 0.5\n1\n", 6, `expected a chemical symbol, found "0.5"`},
		{"no counts", cell + "Na Cl\n", 7, "ends where the atom counts"},
		{"count text", cell + "Na Cl\n1 one\n", 7, `"one", not a whole number`},
		{"count negative", cell + "1 -1\n", 6, "is -1, which is negative"},
		{"counts and species", cell + "Na Cl\n1\n", 7, "1 atom counts for 2 species"},
		{"no counts on the line", cell + "Na Cl\n\n", 7, "no atoms"},
		{"all zero", cell + "Na Cl\n0 0\n", 7, "no atoms"},
		{"count claimed", cell + "Na\n10000001\nDirect\n", 7, "limit is 10000000"},
		{"counts add up", cell + "Na Cl\n9000000 9000000\nDirect\n", 7, "claims 18000000 atoms"},
		{"count beyond int", cell + "Na\n99999999999999999999\nDirect\n", 7, "limit is 10000000"},
		{"no mode", cell + "Na\n1\n", 8, "ends where Direct or Cartesian"},
		{"mode left out", cell + "Na\n1\n0 0 0\n", 8, `found "0 0 0"`},
		{"mode blank", cell + "Na\n1\n\n", 8, `found ""`},
		{"mode left out after selective", cell + "Na\n1\nSelective\n0 0 0 T T T\n", 9, "expected Direct or Cartesian"},
		{"file ends after selective", cell + "Na\n1\nSelective\n", 9, "ends where Direct"},
		{"short of atoms", cell + "Na\n2\nDirect\n0 0 0\n", 10, "ends where the position of atom 2"},
		{"claims without data", cell + "Na\n9999999\nDirect\n", 9, "position of atom 1"},
		{"two numbers", cell + "Na\n1\nDirect\n0 0\n", 9, "found 2"},
		{"NaN", cell + "Na\n1\nDirect\n0 nan 0\n", 9, `"nan", not a finite number`},
		{"infinite", cell + "Na\n1\nCartesian\n0 0 +Inf\n", 9, "not a finite number"},
		{"far", cell + "Na\n1\nDirect\n0 0 1e99\n", 9, "beyond 1e+08"},
		{"flags missing", cell + "Na\n1\nSelective\nDirect\n0 0 0 T\n", 10, "found 1"},
		{"flags wrong", cell + "Na\n1\nSelective\nDirect\n0 0 0 T F 1\n", 10, `is "1"`},
		{"CRLF", strings.ReplaceAll(cell+"Na\n1\nDirect\n0 0\n", "\n", "\r\n"), 9, "found 2"},
		{"long line", "c\n" + long, 2, "longer than 1048576 bytes"},
	})
}

func TestReadersReportReadErrors(t *testing.T) {
	cause := errors.New("the disk is on fire")
	for _, read := range []reader{structure.ReadExtXYZ, structure.ReadPOSCAR} {
		_, err := read(io.MultiReader(strings.NewReader("1\n"), iotest.ErrReader(cause)), "x")
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), "line 2") {
			t.Errorf("error %v, want it to wrap the cause and name line 2", err)
		}
	}
}

// A line of the greatest allowed length is read.
func TestReadLongLine(t *testing.T) {
	comment := strings.Repeat("x", 1<<20)
	for _, end := range []string{"\n", "\r\n"} {
		if _, err := structure.ReadExtXYZ(strings.NewReader("1"+end+comment+end+"C 0 0 0"+end), "x"); err != nil {
			t.Error(err)
		}
	}
}

func formatExtXYZ(c *structure.Crystal) string {
	var b strings.Builder
	letter := map[bool]string{true: "T", false: "F"}
	fmt.Fprintf(&b, "%d\n", len(c.Positions))
	if c.Periodic != [3]bool{} {
		fmt.Fprintf(&b, "Lattice=\"%s\" ", strings.Trim(fmt.Sprint(c.Lattice), "[]"))
	}
	fmt.Fprintf(&b, "Properties=species:S:1:pos:R:3 pbc=\"%s %s %s\"\n", letter[c.Periodic[0]], letter[c.Periodic[1]], letter[c.Periodic[2]])
	for i, p := range c.Positions {
		fmt.Fprintln(&b, c.Species[i], p[0], p[1], p[2])
	}
	return b.String()
}

func formatPOSCAR(c *structure.Crystal, scale float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "comment\n%v\n", scale)
	for _, v := range c.Lattice {
		fmt.Fprintln(&b, v[0]/scale, v[1]/scale, v[2]/scale)
	}
	fmt.Fprintf(&b, "X\n%d\nCartesian\n", len(c.Positions))
	for _, p := range c.Positions {
		fmt.Fprintln(&b, p[0]/scale, p[1]/scale, p[2]/scale)
	}
	return b.String()
}

func TestRoundTrip(t *testing.T) {
	valid := func(c *structure.Crystal) bool { return c.Validate() == nil }
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.Custom(crystalGen).Filter(valid).Draw(t, "crystal")
		got, err := structure.ReadExtXYZ(strings.NewReader(formatExtXYZ(c)), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := sameCrystal(got, c, 0); err != nil {
			t.Fatal(err)
		}
		if c.Periodic != [3]bool{true, true, true} {
			return
		}
		scale := rapid.Float64Range(0.1, 10).Draw(t, "scale")
		if got, err = structure.ReadPOSCAR(strings.NewReader(formatPOSCAR(c, scale)), "x"); err != nil {
			t.Fatal(err)
		}
		if err := sameCrystal(got, c, 1e-12); err != nil {
			t.Fatal(err)
		}
	})
}

// fuzzReader checks that whatever a reader accepts is valid and whatever it
// refuses names a line of the file.
func fuzzReader(f *testing.F, read reader, pattern string) {
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds match %s: %v", pattern, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := read(strings.NewReader(string(data)), "fuzz")
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			if v := c.Volume(); !(v >= 0) || math.IsInf(v, 0) {
				t.Fatalf("volume %v", v)
			}
			return
		}
		var e *structure.FormatError
		if !errors.As(err, &e) || e.Line < 1 || e.Line > strings.Count(string(data), "\n")+2 {
			t.Fatalf("error %v does not name a line of the file", err)
		}
	})
}

func FuzzReadExtXYZ(f *testing.F) { fuzzReader(f, structure.ReadExtXYZ, "*xyz") }

func FuzzReadPOSCAR(f *testing.F) { fuzzReader(f, structure.ReadPOSCAR, "*[TR]_*") }
