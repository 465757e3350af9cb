package structure

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/outside"
)

// maxLine is the maximum length of a line of a structure file, in bytes.
const maxLine = 1 << 20

// FormatError names the place and the defect in a structure file, and the fix.
type FormatError struct {
	File    string // as given to the reader
	Line    int    // counted from 1
	Problem string // what was found
	Fix     string // what to do about it
	Err     error  // the cause, or nil
}

// Error puts the error into one sentence.
func (e *FormatError) Error() string {
	return fmt.Sprintf("reading structure %s, line %d: %s; %s", e.File, e.Line, e.Problem, e.Fix)
}

// Unwrap returns the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// lineReader returns the lines of a file one by one and counts them.
type lineReader struct {
	scanner *bufio.Scanner
	file    string
	line    int // number of the line last returned
	room    *outside.Room
}

func newLineReader(r io.Reader, file string) *lineReader {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 64<<10), maxLine+2) // the limit includes the line end
	return &lineReader{scanner: s, file: file, room: outside.NewRoom()}
}

// next returns the next line without its end. At the end of the file, the error names the expected content.
func (l *lineReader) next(expected string) (string, error) {
	if l.scanner.Scan() {
		l.line++
		text := strings.TrimSuffix(l.scanner.Text(), "\r")
		if l.line == 1 {
			text = strings.TrimPrefix(text, "\ufeff") // added by editors on Windows
		}
		return text, nil
	}
	l.line++
	switch err := l.scanner.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return "", l.wrapf(err, "split the line or check that this is a structure file", "the line is longer than %d bytes", maxLine)
	case err != nil:
		return "", l.wrapf(err, "check the disk and the file's permissions", "cannot read on: %v", err)
	}
	return "", l.wrapf(io.ErrUnexpectedEOF, "complete the file", "the file ends where %s should be", expected)
}

// errorf makes an error about the line that next returned last.
func (l *lineReader) errorf(fix, format string, args ...any) *FormatError {
	return l.wrapf(nil, fix, format, args...)
}

// wrapf is errorf for an error with a cause.
func (l *lineReader) wrapf(cause error, fix, format string, args ...any) *FormatError {
	return &FormatError{File: l.file, Line: l.line, Problem: fmt.Sprintf(format, args...), Fix: fix, Err: cause}
}

// parseVector reads three numbers from the start of fields.
func (l *lineReader) parseVector(fields []string, what string) (v [3]float64, err error) {
	if len(fields) < 3 {
		return v, l.errorf("give x, y and z", "expected 3 numbers for %s, found %d", what, len(fields))
	}
	for k := range 3 {
		if v[k], err = l.parseFinite(fields[k], what); err != nil {
			return v, err
		}
	}
	return v, nil
}

// parseFinite reads one finite number. Fortran's D exponents are accepted.
func (l *lineReader) parseFinite(s, what string) (float64, error) {
	v, ok := parseNumber(s)
	if !ok {
		return 0, l.errorf("write it as a finite decimal number", "%s is %s, not a finite number", what, quoteShort(s))
	}
	return v, nil
}

// parseNumber accepts decimal numbers only; strconv also accepts "inf", "nan", hexadecimal and digit separators.
func parseNumber(s string) (float64, bool) {
	if s == "" || strings.Trim(s, "0123456789+-.eEdD") != "" {
		return 0, false
	}
	if strings.ContainsAny(s, "dD") {
		s = strings.NewReplacer("d", "e", "D", "e").Replace(s)
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// atomCount parses a number of atoms. Do not allocate memory for this number, because the file may be wrong about it.
func (l *lineReader) atomCount(s, what string) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case errors.Is(err, strconv.ErrRange) && n > 0, err == nil && n > maxAtoms:
		return 0, l.errorf("use a smaller structure", "%s is %s, the limit is %d atoms", what, quoteShort(s), maxAtoms)
	case err != nil:
		return 0, l.errorf("put the number of atoms there", "%s is %s, not a whole number", what, quoteShort(s))
	case n < 0:
		return 0, l.errorf("put the number of atoms there", "%s is %d, which is negative", what, n)
	}
	return n, nil
}

// atomBytes is the memory per atom in bytes while the lists grow.
const atomBytes = 128

// addAtom adds an atom if the memory budget allows it.
func (l *lineReader) addAtom(c *Crystal, symbol string, p [3]float64) error {
	if err := l.room.Take(atomBytes); err != nil {
		return l.wrapf(err, "leave atoms out otherwise", "%v", err)
	}
	c.Species = append(c.Species, symbol)
	c.Positions = append(c.Positions, p)
	return nil
}

func quoteShort(s string) string {
	const most = 40
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "?") + "…")
	}
	return strconv.Quote(s)
}
