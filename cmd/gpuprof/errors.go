package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// printing gives a failure to write to standard output its sentence.
func printing(err error) error {
	var all []error
	for _, e := range flatten(err) {
		var p *fs.PathError
		if errors.As(e, &p) && p.Op == "write" && p.Path == os.Stdout.Name() {
			e = gpuprof.Unwritable("printing to standard output", p, "send it elsewhere", "send it where it can be written")
		}
		all = append(all, e)
	}
	if len(all) == 1 {
		return all[0]
	}
	return errors.Join(all...)
}

// flatten splits joined errors, so that each is printed on a line of its own.
func flatten(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok && isJoin(err, j.Unwrap()) {
		var out []error
		for _, e := range j.Unwrap() {
			out = append(out, flatten(e)...)
		}
		return out
	}
	return []error{err}
}

// isJoin tells errors.Join, whose text is its parts one a line, from an error
// that merely carries its kind beside it.
func isJoin(err error, parts []error) bool {
	lines := make([]string, len(parts))
	for i, e := range parts {
		lines[i] = e.Error()
	}
	return err.Error() == strings.Join(lines, "\n")
}

// innermost is the error at the end of the chain of causes.
func innermost(err error) error {
	for {
		under := errors.Unwrap(err)
		if e, ok := errors.AsType[*gpuprof.Error](err); ok {
			under = e.Err
		}
		if under == nil {
			return err
		}
		err = under
	}
}
