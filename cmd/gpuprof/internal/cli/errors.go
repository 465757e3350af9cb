package cli

import (
	"strings"
)

// Flatten splits joined errors, so that each is printed on its own line.
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

// isJoin reports whether err comes from errors.Join, whose text has one line per part. Other errors with several parts,
// made by fmt.Errorf, are one message: their second part is the error's kind.
func isJoin(err error, parts []error) bool {
	lines := make([]string, len(parts))
	for i, e := range parts {
		lines[i] = e.Error()
	}
	return err.Error() == strings.Join(lines, "\n")
}
