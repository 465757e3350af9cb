// Package dynlib loads the shared libraries of others while the program runs and calls
// their functions, without cgo: the NVIDIA driver, its management library, cuBLAS and
// cuDNN. It alone knows how a library is found, loaded and called on each system.
//
// Built for Linux with the tag nodlopen, the program is linked statically, needs no file
// of the system and loads nothing; see Unable.
package dynlib

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrAbsent is a library that is not there, as opposed to one that does not load.
var ErrAbsent = errors.New("not found")

// First opens the first library of the list that is there and returns its handle and
// path. A library that is there and does not load ends the search: what is wrong with it
// is more use than finding another. The error wraps ErrAbsent where none is there.
func First(paths []string) (handle uintptr, path string, err error) {
	for _, p := range paths {
		h, err := Open(p)
		if err == nil {
			return h, p, nil
		}
		if !errors.Is(err, ErrAbsent) {
			return 0, p, err
		}
	}
	if len(paths) == 1 {
		return 0, "", fmt.Errorf("%s was %w", paths[0], ErrAbsent)
	}
	return 0, "", fmt.Errorf("%s was %w, neither by the loader nor in %d usual folders", paths[0], ErrAbsent, len(paths)-1)
}

// absent tells a missing file from a broken one by the loader's own words and
// by looking: the loader reports a missing dependency of a library in the same
// words as a missing library, with another name before them.
func absent(path, complaint string, stat func(string) (fs.FileInfo, error)) bool {
	if strings.ContainsAny(path, `/\`) {
		_, err := stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	return strings.HasPrefix(complaint, path+":") && strings.Contains(complaint, "No such file")
}
