// Package machine reads files and counters of the system: a description of the machine, telemetry during a run, and
// what limits measuring on it (see Examine).
//
// Values come from /proc and /sys. An unreadable value is left out and never reported as zero.
package machine

import (
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is the file tree that the probes read, the root or a test's, and the system as in runtime.GOOS.
type Machine struct {
	fsys   fs.FS
	system string
}

// This returns the machine on which the process runs.
func This() Machine { return Machine{os.DirFS("/"), runtime.GOOS} }

// readText reads a small file and trims it; name has no leading slash.
func (m Machine) readText(name string) (string, error) {
	b, err := fs.ReadFile(m.fsys, name)
	return strings.TrimSpace(string(b)), err
}

func (m Machine) readInteger(name string) (int64, error) {
	s, err := m.readText(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(s, 10, 64)
}

// readField returns the first "key: value" in a file such as /proc/cpuinfo.
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

// glob lists the paths that match a pattern, with a leading slash.
func (m Machine) glob(pattern string) []string {
	found, _ := fs.Glob(m.fsys, pattern)
	for i := range found {
		found[i] = "/" + found[i]
	}
	return found
}
