package cuda

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// errAbsent is a library that is not there, as opposed to one that does not load.
var errAbsent = errors.New("not found")

// openFirst opens the first library of the list that is there. A library that
// is there and does not load ends the search: what is wrong with it is more
// use than finding another.
func openFirst(paths []string) (handle uintptr, path string, err error) {
	for _, p := range paths {
		h, err := openLibrary(p)
		if err == nil {
			return h, p, nil
		}
		if !errors.Is(err, errAbsent) {
			return 0, p, err
		}
	}
	if len(paths) == 1 {
		return 0, "", fmt.Errorf("%s was %w", paths[0], errAbsent)
	}
	return 0, "", fmt.Errorf("%s was %w, neither by the loader nor in %d usual folders", paths[0], errAbsent, len(paths)-1)
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
