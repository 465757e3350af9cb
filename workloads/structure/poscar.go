package structure

import (
	"io"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
)

// ReadPOSCAR reads a VASP POSCAR or CONTCAR file of version 4 or 5 (without or with a line of species). The crystal is
// periodic in three directions. name is used in errors; its base names the crystal. Malformed input gives a
// *FormatError.
//
// Line 2 holds one factor, three factors for x, y and z, or a negative number, minus the cell volume in cubic angstrom.
// The factors multiply the lattice and cartesian positions. Without a line of species, the symbols come from the
// comment if it lists one element for each count; otherwise they are X1, X2 and so on. Flags of selective dynamics are
// checked and dropped; velocities and other text after the positions are ignored.
func ReadPOSCAR(r io.Reader, name string) (*Crystal, error) {
	l := newLineReader(r, name)
	comment, err := l.next("the comment line")
	if err != nil {
		return nil, err
	}
	c := &Crystal{Name: filepath.Base(name), Periodic: [3]bool{true, true, true}}
	scale, err := poscarCell(l, c)
	if err != nil {
		return nil, err
	}
	species, counts, err := poscarSpecies(l, comment)
	if err != nil {
		return nil, err
	}
	selective, cartesian, err := poscarMode(l)
	if err != nil {
		return nil, err
	}
	for i, n := range counts {
		for range n {
			p, err := poscarAtom(l, len(c.Positions)+1, selective)
			if err != nil {
				return nil, err
			}
			if cartesian {
				p = [3]float64{p[0] * scale[0], p[1] * scale[1], p[2] * scale[2]}
			} else {
				p = cartesianOf(p, c.Lattice)
			}
			if !isInReach(p) {
				return nil, l.errorf("correct the coordinates", "atom %d is at %v, beyond %g angstrom", len(c.Positions)+1, p, maxCoordinate)
			}
			if err := l.addAtom(c, species[i], p); err != nil {
				return nil, err
			}
		}
	}
	return finishCrystal(l, c)
}

// poscarCell reads lines 2 to 5 and returns the scale factors for x, y and z.
func poscarCell(l *lineReader, c *Crystal) (scale [3]float64, err error) {
	line, err := l.next("the scale factor")
	if err != nil {
		return scale, err
	}
	given, err := poscarScale(l, stripComment(line))
	if err != nil {
		return scale, err
	}
	for k, which := range [3]string{"a", "b", "c"} {
		what := "lattice vector " + which
		if line, err = l.next(what); err != nil {
			return scale, err
		}
		if c.Lattice[k], err = l.parseVector(strings.Fields(stripComment(line)), what); err != nil {
			return scale, err
		}
	}
	const fix = "give three independent lattice vectors on lines 3 to 5"
	if problem := latticeProblem(c.Lattice, c.Periodic); problem != "" && given[0] < 0 {
		return scale, l.errorf(fix, "%s", problem) // before dividing by the volume
	}
	scale = [3]float64{given[0], given[0], given[0]}
	switch {
	case len(given) == 3:
		scale = [3]float64{given[0], given[1], given[2]}
	case given[0] < 0:
		s := math.Cbrt(-given[0] / math.Abs(det(c.Lattice)))
		scale = [3]float64{s, s, s}
	}
	for k := range 3 {
		for j := range 3 {
			c.Lattice[k][j] *= scale[j]
		}
	}
	if problem := latticeProblem(c.Lattice, c.Periodic); problem != "" {
		return scale, l.errorf(fix, "%s", problem)
	}
	return scale, nil
}

// poscarScale reads one non-zero number or three positive numbers.
func poscarScale(l *lineReader, line string) ([]float64, error) {
	const fix = "write 1.0, a negative cell volume, or three positive factors"
	var given []float64
	for _, s := range strings.Fields(line) {
		v, ok := parseNumber(s)
		if !ok {
			return nil, l.errorf(fix, "the scale factor is %s, not a finite number", quoteShort(s))
		}
		given = append(given, v)
	}
	if len(given) != 1 && len(given) != 3 {
		return nil, l.errorf(fix, "expected 1 or 3 scale factors, found %d", len(given))
	}
	for _, v := range given {
		if v == 0 || (v < 0 && len(given) == 3) {
			return nil, l.errorf(fix, "the scale factor is %g", v)
		}
	}
	return given, nil
}

// poscarSpecies reads the line of species, if there is one, and the line of counts.
func poscarSpecies(l *lineReader, comment string) (species []string, counts []int, err error) {
	line, err := l.next("the species or the atom counts")
	if err != nil {
		return nil, nil, err
	}
	fields := strings.Fields(stripComment(line))
	if len(fields) == 0 {
		return nil, nil, l.errorf("put the species or the atom counts there", "expected species or atom counts, found an empty line")
	}
	if !isWhole(fields[0]) {
		for _, s := range fields {
			if !unicode.IsLetter([]rune(s)[0]) {
				return nil, nil, l.errorf("put the species or the atom counts there", "expected a chemical symbol, found %s", quoteShort(s))
			}
			species = append(species, pseudopotentialElement(s))
		}
		if line, err = l.next("the atom counts"); err != nil {
			return nil, nil, err
		}
		fields = strings.Fields(stripComment(line))
	}
	total := 0
	for _, s := range fields {
		n, err := l.atomCount(s, "an atom count")
		if err != nil {
			return nil, nil, err
		}
		if total += n; total > maxAtoms {
			return nil, nil, l.errorf("use a smaller structure", "the file claims %d atoms or more, the limit is %d", total, maxAtoms)
		}
		counts = append(counts, n)
	}
	if total == 0 {
		return nil, nil, l.errorf("give one count for each species", "there are no atoms")
	}
	if species == nil {
		species = commentSpecies(comment, len(counts))
	}
	if len(species) != len(counts) {
		return nil, nil, l.errorf("give one count for each species", "%d atom counts for %d species", len(counts), len(species))
	}
	return species, counts, nil
}

// pseudopotentialElement strips VASP's suffixes of a symbol: a variant such as _pv, or a slash and a hash.
func pseudopotentialElement(s string) string {
	if i := strings.IndexAny(s, "_/"); i > 0 {
		return s[:i]
	}
	return s
}

// commentSpecies returns the elements of the comment if it is a list of n elements, otherwise placeholders.
func commentSpecies(comment string, n int) []string {
	names := strings.Fields(comment)
	match := len(names) == n
	for i, s := range names {
		names[i] = pseudopotentialElement(s)
		match = match && isElement(names[i])
	}
	if match {
		return names
	}
	names = names[:0]
	for i := range n {
		names = append(names, "X"+strconv.Itoa(i+1))
	}
	return names
}

// poscarMode reads the optional selective dynamics and the kind of coordinates, by first letters like VASP.
func poscarMode(l *lineReader) (selective, cartesian bool, err error) {
	const expected = "Direct or Cartesian"
	line, err := l.next(expected)
	if err != nil {
		return false, false, err
	}
	if firstLetter(line) == 's' {
		selective = true
		if line, err = l.next(expected); err != nil {
			return false, false, err
		}
	}
	switch firstLetter(line) {
	case 'd', 'f':
		return selective, false, nil
	case 'c', 'k':
		return selective, true, nil
	}
	return false, false, l.errorf("write Direct or Cartesian", "expected %s, found %s", expected, quoteShort(strings.TrimSpace(line)))
}

func firstLetter(line string) byte {
	line = strings.ToLower(strings.TrimSpace(line))
	if line == "" {
		return 0
	}
	return line[0]
}

func poscarAtom(l *lineReader, i int, selective bool) (p [3]float64, err error) {
	what := "the position of atom " + strconv.Itoa(i)
	line, err := l.next(what)
	if err != nil {
		return p, err
	}
	fields := strings.Fields(line)
	if p, err = l.parseVector(fields, what); err != nil || !selective {
		return p, err
	}
	if len(fields) < 6 {
		return p, l.errorf("add T or F for x, y and z", "expected 3 flags of selective dynamics after the position of atom %d, found %d", i, len(fields)-3)
	}
	for _, s := range fields[3:6] {
		if f := strings.ToLower(strings.Trim(s, ".")); f != "t" && f != "f" && f != "true" && f != "false" {
			return p, l.errorf("use T or F", "a flag of selective dynamics is %s", quoteShort(s))
		}
	}
	return p, nil
}

// stripComment drops text after ! or # on a header line.
func stripComment(line string) string {
	if i := strings.IndexAny(line, "!#"); i >= 0 {
		return line[:i]
	}
	return line
}
