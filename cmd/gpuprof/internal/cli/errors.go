package cli

import (
	"strings"
)

// Flatten splits joined errors, so that each is printed on a line of its own.
func Flatten(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok && isJoin(err, j.Unwrap()) {
		var out []error
		for _, e := range j.Unwrap() {
			out = append(out, Flatten(e)...)
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
