// Package machine reads the machine's own files and counters: the fingerprint of a run, telemetry during the run, and
// the limits of what can be measured here.
//
// Everything comes from /proc and /sys. An unreadable figure is left out; it is never reported as zero.
package machine

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is the file tree that the probes read: the root of the file system, or an invented one in tests; and its
// system, in the names of runtime.GOOS.
type Machine struct {
	fsys   fs.FS
	system string
}

// This returns the machine that the process runs on.
func This() Machine { return Machine{os.DirFS("/"), runtime.GOOS} }

// readText reads a small file as trimmed text; name has no leading slash.
func (m Machine) readText(name string) (string, error) {
	b, err := fs.ReadFile(m.fsys, name)
	return strings.TrimSpace(string(b)), err
}

// readInteger reads a file that holds one whole number.
func (m Machine) readInteger(name string) (int64, error) {
	s, err := m.readText(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// readField finds "key: value" in a file such as /proc/cpuinfo, at its first occurrence.
func (m Machine) readField(name, key string) (string, bool) {
	s, err := m.readText(name)
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
