// Package machine reads what the machine says about itself: the fingerprint of
// a run, telemetry while it runs, and what can be measured here at all.
//
// Everything comes from /proc and /sys. A figure that cannot be read is left
// out; it is never reported as zero.
package machine

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is the file tree that the probes read: the root of the file system,
// or a made-up one in tests; and the system that has it, as runtime.GOOS names it.
type Machine struct {
	fsys   fs.FS
	system string
}

// This is the machine that the process runs on.
func This() Machine { return Machine{os.DirFS("/"), runtime.GOOS} }

// text reads a small file as trimmed text; name has no leading slash.
func (m Machine) text(name string) (string, error) {
	b, err := fs.ReadFile(m.fsys, name)
	return strings.TrimSpace(string(b)), err
}

// integer reads a file that holds one whole number.
func (m Machine) integer(name string) (int64, error) {
	s, err := m.text(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// field finds "key: value" in a file such as /proc/cpuinfo, at its first
// occurrence.
func (m Machine) field(name, key string) (string, bool) {
	s, err := m.text(name)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(s) {
		k, v, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v), true
		}
	}
	return "", false
}

// glob lists the paths that match a pattern, with leading slashes.
func (m Machine) glob(pattern string) []string {
	found, _ := fs.Glob(m.fsys, pattern)
	for i := range found {
		found[i] = "/" + found[i]
	}
	return found
}
