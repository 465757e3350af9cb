package structure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// sniffLength is the number of bytes read to determine a file's format.
const sniffLength = 64 << 10

// ReadFile reads a structure file. Its name decides the format: .xyz and .extxyz are extended XYZ; .vasp, .poscar and
// names that begin with POSCAR or CONTCAR are VASP. For other names the first lines decide. The error for a missing
// file matches fs.ErrNotExist; a malformed file gives a *FormatError. ctx ends waiting for a pipe.
func ReadFile(ctx context.Context, path string) (*Crystal, error) {
	opened, err := outside.Open(ctx, path, outside.Document())
	return readOpened(path, opened, err)
}

// ReadFound is ReadFile for a regular file that was found in a folder.
func ReadFound(path string) (*Crystal, error) {
	opened, err := outside.Found(path, outside.Document())
	return readOpened(path, opened, err)
}

// readOpened reads and closes a file; err is the error of opening it.
func readOpened(path string, opened *outside.File, err error) (*Crystal, error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, gpuprof.Errorf(nil, "reading structure %s: %w", path, err).WithFix("check the path")
	case errors.Is(err, outside.ErrFolder):
		return nil, gpuprof.Errorf(nil, "reading structure %s: %w", path, err).WithFix("name a file in it")
	case err != nil:
		if _, large := errors.AsType[*outside.TooLarge](err); large {
			return nil, fmt.Errorf("reading structure %s: %w", path, err)
		}
		return nil, gpuprof.Errorf(nil, "reading structure %s: %w", path, err).WithFix("check its permissions")
	}
	defer opened.Close()
	file := opened.Text()
	name := strings.ToLower(filepath.Base(path))
	switch ext := filepath.Ext(name); {
	case ext == ".xyz" || ext == ".extxyz":
		return ReadExtXYZ(file, path)
	case ext == ".vasp" || ext == ".poscar" || strings.HasPrefix(name, "poscar") || strings.HasPrefix(name, "contcar"):
		return ReadPOSCAR(file, path)
	}
	return readByContent(file, path)
}

// readByContent determines the format by the first lines.
func readByContent(r io.Reader, path string) (*Crystal, error) {
	head := make([]byte, sniffLength)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return nil, gpuprof.Errorf(nil, "reading structure %s: %w", path, err).WithFix("check the disk and the file's permissions")
	}
	head = head[:n]
	whole := io.MultiReader(bytes.NewReader(head), r)
	lines := strings.SplitN(string(head), "\n", 4)
	switch {
	case len(lines) > 2 && isNumberLine(stripComment(lines[1]), 1, 3) && isNumberLine(stripComment(lines[2]), 3):
		return ReadPOSCAR(whole, path)
	case isWhole(strings.TrimSpace(strings.TrimPrefix(lines[0], "\ufeff"))):
		return ReadExtXYZ(whole, path)
	}
	return nil, gpuprof.Errorf(nil, "reading structure %s: the content looks neither like XYZ (an atom count on line 1) nor like POSCAR (a scale factor on line 2)", path).WithFix("convert it, or rename it to end in .xyz or .vasp if it is one of them")
}

// finishCrystal returns the crystal if it is valid. Readers have already reported most defects with their line.
func finishCrystal(l *lineReader, c *Crystal) (*Crystal, error) {
	if err := c.Validate(); err != nil {
		return nil, l.wrapf(err, "correct the file", "%v", err)
	}
	return c, nil
}

// isNumberLine reports whether a line has only numbers, and their count is one of counts.
func isNumberLine(line string, counts ...int) bool {
	fields := strings.Fields(line)
	for _, s := range fields {
		if _, ok := parseNumber(s); !ok {
			return false
		}
	}
	return slices.Contains(counts, len(fields))
}

func isWhole(s string) bool {
	_, err := strconv.Atoi(s)
	return err == nil
}
