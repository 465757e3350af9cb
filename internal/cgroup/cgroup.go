// Package cgroup reads the limits of this process's control groups (versions 1 and 2), also inside containers.
package cgroup

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// mountPoint is the default mount point of control groups.
const mountPoint = "sys/fs/cgroup"

// Dirs returns the folders of this process's groups, from the innermost up to the mount, because every level may set a
// limit. Groups of version 2 come first, then the controller's groups of version 1. root is the machine's file tree;
// names have no leading slash.
func Dirs(root fs.FS, controller string) []string {
	two, one := findGroups(root, controller)
	return append(two, one...)
}

func findGroups(root fs.FS, controller string) (two, one []string) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return nil, nil
	}
	mounts := readMounts(root)
	for line := range strings.Lines(string(text)) { // hierarchy:controllers:path
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) != 3:
		case f[0] == "0" && f[1] == "":
			two = groupDirs(mounts.bestMount("", f[2]), f[2])
		case slices.Contains(strings.Split(f[1], ","), controller):
			one = groupDirs(mounts.bestMount(controller, f[2]), f[2])
		}
	}
	return two, one
}

// mount is a mounted part of a group hierarchy.
type mount struct {
	point       string   // without leading slash
	root        string   // the mounted group
	controllers []string // version 1; nil for version 2
}

type mounts []mount

// readMounts parses /proc/self/mountinfo: "36 35 98:0 ROOT POINT OPTIONS [TAGS…] - TYPE SOURCE OPTIONS" (proc(5)).
func readMounts(root fs.FS) mounts {
	text, err := fs.ReadFile(root, "proc/self/mountinfo")
	if err != nil {
		return nil
	}
	var all mounts
	for line := range strings.Lines(string(text)) {
		front, back, ok := strings.Cut(line, " - ")
		f, b := strings.Fields(front), strings.Fields(back)
		if !ok || len(f) < 5 || len(b) < 3 {
			continue
		}
		m := mount{point: strings.TrimPrefix(unescapePath(f[4]), "/"), root: unescapePath(f[3])}
		switch b[0] {
		case "cgroup2":
		case "cgroup":
			m.controllers = strings.Split(b[2], ",")
		default:
			continue
		}
		all = append(all, m)
	}
	return all
}

func unescapePath(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		if s[0] == '\\' && len(s) >= 4 {
			if c, err := strconv.ParseUint(s[1:4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				s = s[4:]
				continue
			}
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}

// bestMount returns the mount of a controller ("" for version 2) that contains most ancestors of a group. In a
// container the group itself is often the root.
func (all mounts) bestMount(controller, group string) mount {
	best := mount{point: mountPoint, root: "/"}
	if controller != "" {
		best.point = path.Join(mountPoint, controller)
	}
	found := false
	for _, m := range all {
		if controller == "" && m.controllers != nil || controller != "" && !slices.Contains(m.controllers, controller) {
			continue
		}
		_, now := relativeTo(m.root, group)
		_, before := relativeTo(best.root, group)
		if !found || now && (!before || len(m.root) < len(best.root)) {
			best, found = m, true
		}
	}
	return best
}

// relativeTo returns the path of a group relative to root, and whether the group is below root.
func relativeTo(root, group string) (string, bool) {
	root, group = path.Clean("/"+root), path.Clean("/"+group)
	if root == "/" {
		return group, true
	}
	if rest, ok := strings.CutPrefix(group, root); ok && (rest == "" || rest[0] == '/') {
		return path.Clean("/" + rest), true
	}
	return group, false
}

// groupDirs lists the folders of a group and its ancestors, the mount last. In a container the mount is often the
// container's own group, although /proc has the path outside of the container.
func groupDirs(m mount, group string) []string {
	var dirs []string
	rest, _ := relativeTo(m.root, group)
	for p := rest; ; p = path.Dir(p) {
		dirs = append(dirs, path.Join(m.point, p))
		if p == "/" {
			return dirs
		}
	}
}
