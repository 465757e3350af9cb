// Package dynlib loads shared libraries at run time and calls their functions without cgo: the NVIDIA driver, its
// management library, cuBLAS and cuDNN. Only this package depends on how an operating system finds, loads and calls
// libraries. With the tag nodlopen, the Linux program is linked statically: it needs no system file and loads nothing;
// see Unable.
package dynlib

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// ErrAbsent is the error of a library that does not exist. One that fails to load has another error.
var ErrAbsent = errors.New("not found")

// First opens the first existing library of the list and returns its handle and path. If that fails to load, First
// returns its error and tries no other library: the error is more useful. The error wraps ErrAbsent if no library
// exists.
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

// isAbsent distinguishes a missing library from a broken one, by the loader's message and the file system. The loader's
// message about a missing dependency is similar, but begins with the dependency's name.
func isAbsent(path, complaint string, stat func(string) (fs.FileInfo, error)) bool {
	if strings.ContainsAny(path, `/\`) {
		_, err := stat(path)
		return errors.Is(err, fs.ErrNotExist)
	}
	return strings.HasPrefix(complaint, path+":") && strings.Contains(complaint, "No such file")
}
