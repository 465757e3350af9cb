// Package host reads what the machine says about itself: the fingerprint of
// a run, telemetry while it runs, and what can be measured here at all.
//
// Everything comes from /proc and /sys. A figure that cannot be read is left
// out; it is never reported as zero.
package host

import (
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Machine is the file tree that the probes read: the root of the file system,
// or a made-up one in tests.
type Machine struct {
	fsys   fs.FS
	getenv func(string) string
}

// This is the machine that the process runs on.
func This() Machine { return Machine{os.DirFS("/"), os.Getenv} }

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

// exists reports whether a path is there, readable or not.
func (m Machine) exists(name string) bool {
	_, err := fs.Stat(m.fsys, name)
	return err == nil
}

// glob lists the paths that match a pattern, with leading slashes.
func (m Machine) glob(pattern string) []string {
	found, _ := fs.Glob(m.fsys, pattern)
	for i := range found {
		found[i] = "/" + found[i]
	}
	return found
}

// groups lists the directories of the process's control group, innermost
// first (a limit may be set at any level above it): version 2, then version 1
// of the named controller.
func (m Machine) groups(controller string) []string {
	s, err := m.text("proc/self/cgroup")
	if err != nil {
		return nil
	}
	var v1, v2 []string
	for line := range strings.Lines(s) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			v2 = above("sys/fs/cgroup", f[2])
		case slices.Contains(strings.Split(f[1], ","), controller):
			v1 = above("sys/fs/cgroup/"+controller, f[2])
		}
	}
	return append(v2, v1...)
}

// above lists the directory of a group and of every group around it. The
// mount itself comes last: a container often sees its own group there while
// /proc still names the outer path.
func above(mount, group string) []string {
	var dirs []string
	for p := path.Clean("/" + group); ; p = path.Dir(p) {
		dirs = append(dirs, path.Join(mount, p))
		if p == "/" {
			return dirs
		}
	}
}
