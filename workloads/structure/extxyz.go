package structure

import (
	"io"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// defaultColumns are the columns of plain XYZ.
const defaultColumns = "species:S:1:pos:R:3"

// xyzColumns locates the species and position columns in an atom line.
type xyzColumns struct {
	species, pos int // first column of each
	total        int
	exact        bool // a line must have exactly total columns
	numeric      bool // the species column holds atomic numbers
}

// ReadExtXYZ reads the first frame of an XYZ file and ignores further frames. name is the file's name in errors; its
// base names the crystal. Malformed input gives a *FormatError. A file without Lattice is not periodic. The comment
// line may have key=value pairs as written by ASE and libAtoms:
//   - Lattice: nine numbers (a, then b, then c, in angstrom) or three for a box,
//     in quotes, in braces or as an array, flat or nested by vector;
//   - pbc: one or three of T/F (also true/false, 1/0); without it every
//     direction with a lattice vector is periodic. The vector of a direction
//     that is not periodic is dropped;
//   - Properties: the columns, of which species (or Z, the atomic numbers) and
//     pos are used. Without it a line has a symbol or atomic number and x y z,
//     and further columns are ignored.
func ReadExtXYZ(r io.Reader, name string) (*Crystal, error) {
	l := newLineReader(r, name)
	first, err := l.next("the number of atoms")
	if err != nil {
		return nil, err
	}
	n, err := l.atomCount(strings.TrimSpace(first), "the number of atoms")
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, l.errorf("give at least one atom", "the number of atoms is 0")
	}
	comment, err := l.next("the comment line")
	if err != nil {
		return nil, err
	}
	c := &Crystal{Name: filepath.Base(name)}
	pairs, err := commentPairs(l, comment)
	if err != nil {
		return nil, err
	}
	if err := applyCell(l, c, pairs); err != nil {
		return nil, err
	}
	columns, err := parseProperties(l, pairs)
	if err != nil {
		return nil, err
	}
	for i := range n {
		if err := readXYZAtom(l, c, columns, i, n); err != nil {
			return nil, err
		}
	}
	if err := l.endOfFrame(n); err != nil {
		return nil, err
	}
	return finishCrystal(l, c)
}

// endOfFrame checks that after the atoms the file ends or another frame begins. Other text means that the count on
// line 1 is too small, so that atoms would be left out silently.
func (l *lineReader) endOfFrame(n int) error {
	for l.scanner.Scan() {
		l.line++
		text := strings.TrimSpace(l.scanner.Text())
		if text == "" {
			continue
		}
		if isWhole(text) {
			return nil
		}
		return l.errorf("correct the number of atoms on line 1 or take the line out", "line 1 announces %d atoms, and this line comes after them", n)
	}
	return nil
}

// wantedPair matches an assignment to a key that this package uses.
var wantedPair = lazyregexp.New(`(?i)(^|\s)["']?(lattice|properties|pbc)["']?\s*=`)

// commentPairs returns the pairs by lower-cased key. A comment without a wantedPair is free text.
func commentPairs(l *lineReader, comment string) (map[string]string, error) {
	if !wantedPair.MatchString(comment) {
		return nil, nil
	}
	pairs := map[string]string{}
	p := pairScanner{text: comment}
	for {
		key, value, problem := p.next()
		if problem != "" {
			return nil, l.errorf("balance the quotes and brackets of the comment line", "%s", problem)
		}
		if key == "" {
			return pairs, nil
		}
		if value == "" {
			continue // a key without a value
		}
		key = strings.ToLower(key)
		if _, twice := pairs[key]; twice && (key == "lattice" || key == "properties" || key == "pbc") {
			return nil, l.errorf("keep one of them", "the comment line has %s twice", key)
		}
		pairs[key] = value
	}
}

func applyCell(l *lineReader, c *Crystal, pairs map[string]string) error {
	lattice, hasLattice := pairs["lattice"]
	if hasLattice {
		if err := parseLattice(l, c, lattice); err != nil {
			return err
		}
		for k, v := range c.Lattice {
			c.Periodic[k] = v != [3]float64{}
		}
	}
	if pbc, ok := pairs["pbc"]; ok {
		if err := parsePBC(l, c, pbc); err != nil {
			return err
		}
	}
	if !hasLattice && c.Periodic != [3]bool{} {
		return l.errorf(`add Lattice="ax ay az bx by bz cx cy cz" or set pbc="F F F"`, "pbc says periodic but there is no Lattice")
	}
	for k := range c.Lattice {
		if !c.Periodic[k] {
			c.Lattice[k] = [3]float64{}
		}
	}
	if problem := latticeProblem(c.Lattice, c.Periodic); problem != "" {
		return l.errorf("give three independent vectors or set pbc to F where the structure does not repeat", "%s", problem)
	}
	return nil
}

func parseLattice(l *lineReader, c *Crystal, value string) error {
	fields := arrayFields(value)
	if len(fields) != 9 && len(fields) != 3 {
		return l.errorf(`write Lattice="ax ay az bx by bz cx cy cz"`, "Lattice has %d numbers, expected 9 (or 3 for a box)", len(fields))
	}
	for i, s := range fields {
		v, err := l.parseFinite(s, "a component of Lattice")
		if err != nil {
			return err
		}
		if len(fields) == 3 {
			c.Lattice[i][i] = v
		} else {
			c.Lattice[i/3][i%3] = v
		}
	}
	return nil
}

func parsePBC(l *lineReader, c *Crystal, value string) error {
	fields := arrayFields(value)
	if len(fields) != 1 && len(fields) != 3 {
		return l.errorf(`write pbc="T T T"`, "pbc has %d values, expected 3", len(fields))
	}
	for k := range 3 {
		s := fields[k%len(fields)]
		switch strings.ToLower(s) {
		case "t", "true", ".true.", "1":
			c.Periodic[k] = true
		case "f", "false", ".false.", "0":
			c.Periodic[k] = false
		default:
			return l.errorf("use T or F", "pbc has %s", quoteShort(s))
		}
	}
	return nil
}

// arrayFields splits an array in any accepted form, nested or not, into its items.
func arrayFields(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(" \t,[]{}", r) })
}

const propertiesFix = "write Properties=species:S:1:pos:R:3 with name:type:count for every further column"

func parseProperties(l *lineReader, pairs map[string]string) (xyzColumns, error) {
	value, given := pairs["properties"]
	if !given {
		value = defaultColumns
	}
	columns := xyzColumns{species: -1, pos: -1, exact: given}
	parts := strings.Split(value, ":")
	if len(parts)%3 != 0 {
		return columns, l.errorf(propertiesFix, "Properties has %d parts, expected triples of name, type and count", len(parts))
	}
	for ; len(parts) > 0; parts = parts[3:] {
		name, kind := parts[0], parts[1]
		count, err := strconv.Atoi(parts[2])
		if err != nil || count < 1 || count > maxLine {
			return columns, l.errorf(propertiesFix, "Properties gives %s the column count %s", quoteShort(name), quoteShort(parts[2]))
		}
		if kind != "S" && kind != "I" && kind != "R" && kind != "L" {
			return columns, l.errorf("use S, I, R or L", "Properties gives %s the type %s", quoteShort(name), quoteShort(kind))
		}
		if err := columns.addColumns(l, strings.ToLower(name), kind, count); err != nil {
			return columns, err
		}
		if columns.total += count; columns.total > maxLine {
			return columns, l.errorf(propertiesFix, "Properties asks for more than %d columns", maxLine)
		}
	}
	if columns.species < 0 || columns.pos < 0 {
		return columns, l.errorf(propertiesFix, "Properties names no species (or Z) or no pos column")
	}
	return columns, nil
}

// addColumns records the place of the next columns if they are positions or species. Of several columns of one kind
// the first counts; symbols take precedence over numbers.
func (x *xyzColumns) addColumns(l *lineReader, name, kind string, count int) error {
	switch name {
	case "pos", "positions":
		if kind != "R" || count != 3 {
			return l.errorf("use pos:R:3", "Properties has pos:%s:%d", kind, count)
		}
		if x.pos < 0 {
			x.pos = x.total
		}
	case "species", "symbols":
		if kind != "S" || count != 1 {
			return l.errorf("use species:S:1", "Properties has species:%s:%d", kind, count)
		}
		if x.species < 0 || x.numeric {
			x.species, x.numeric = x.total, false
		}
	case "z", "numbers":
		if kind == "I" && count == 1 && x.species < 0 {
			x.species, x.numeric = x.total, true
		}
	}
	return nil
}

func readXYZAtom(l *lineReader, c *Crystal, columns xyzColumns, i, n int) error {
	line, err := l.next("atom " + strconv.Itoa(i+1) + " of " + strconv.Itoa(n))
	if err != nil {
		return err
	}
	fields := strings.Fields(line)
	if len(fields) < columns.total || (columns.exact && len(fields) > columns.total) {
		if columns.exact {
			return l.errorf("make the line and Properties agree", "expected %d columns as Properties says, found %d", columns.total, len(fields))
		}
		return l.errorf("add what is missing or correct the number of atoms on line 1", "expected %d columns (symbol x y z), found %d", columns.total, len(fields))
	}
	symbol := fields[columns.species]
	if z, err := strconv.Atoi(symbol); err == nil {
		var known bool
		if symbol, known = elementSymbol(z); !known {
			return l.errorf("use a symbol or a number from 1 to 118", "there is no element with the number %d", z)
		}
	} else if columns.numeric {
		return l.errorf("put the atomic number there", "the atomic number is %s, not a whole number", quoteShort(symbol))
	}
	p, err := l.parseVector(fields[columns.pos:], "the position of atom "+strconv.Itoa(i+1))
	if err != nil {
		return err
	}
	if !isInReach(p) {
		return l.errorf("give coordinates in angstrom", "atom %d is at %v, beyond %g angstrom", i+1, p, maxCoordinate)
	}
	return l.addAtom(c, strings.Clone(symbol), p) // a copy, so that the whole line is not kept in memory
}
