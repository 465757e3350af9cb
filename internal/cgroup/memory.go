package cgroup

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
)

// unlimited is from where on a number means no limit: version 1 writes the largest
// page-aligned one.
const unlimited = 1 << 60

// MemoryLimit is the tightest limit of memory in bytes, at which the system
// throttles or ends the process; false where there is none or none can be read.
func MemoryLimit(root fs.FS) (int64, bool) {
	least := int64(math.MaxInt64)
	two, one := find(root, "memory")
	for _, dir := range two {
		least = min(least, limitOf(root, dir, "memory.max"), limitOf(root, dir, "memory.high"))
	}
	for _, dir := range one {
		least = min(least, limitOf(root, dir, "memory.limit_in_bytes"), outerLimit(root, dir))
	}
	if least >= unlimited {
		return 0, false
	}
	return least, true
}

// MemoryAvailable is what this process can still take, in bytes, without that the
// machine swaps or a control group throttles or ends it: the least of MemAvailable
// and of what every group around the process leaves. math.MaxInt64 where nothing
// can be read.
func MemoryAvailable(root fs.FS) int64 {
	left := int64(math.MaxInt64)
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		if kib, ok := numberAfter(text, "MemAvailable:"); ok && kib <= math.MaxInt64>>10 {
			left = kib << 10
		}
	}
	two, one := find(root, "memory")
	for _, dir := range two {
		most := min(limitOf(root, dir, "memory.max"), limitOf(root, dir, "memory.high"))
		left = min(left, leaves(root, dir, most, "memory.current", "inactive_file"))
	}
	for _, dir := range one {
		most := min(limitOf(root, dir, "memory.limit_in_bytes"), outerLimit(root, dir))
		left = min(left, leaves(root, dir, most, "memory.usage_in_bytes", "total_inactive_file"))
	}
	return left
}

// leaves is what a group leaves below a limit. File pages count as used but are
// given up under pressure.
func leaves(root fs.FS, dir string, most int64, usage, cached string) int64 {
	if most >= unlimited {
		return math.MaxInt64
	}
	used, ok := number(root, path.Join(dir, usage))
	if !ok {
		return math.MaxInt64
	}
	if stat, err := fs.ReadFile(root, path.Join(dir, "memory.stat")); err == nil {
		if n, ok := numberAfter(stat, cached); ok {
			used -= min(n, used)
		}
	}
	return max(0, most-used)
}

// limitOf is the number in a group's file; the largest where it sets none.
func limitOf(root fs.FS, dir, name string) int64 {
	if v, ok := number(root, path.Join(dir, name)); ok {
		return v
	}
	return math.MaxInt64
}

// outerLimit is the tightest limit of all groups around one of version 1, those
// that a container does not see among them.
func outerLimit(root fs.FS, dir string) int64 {
	if stat, err := fs.ReadFile(root, path.Join(dir, "memory.stat")); err == nil {
		if v, ok := numberAfter(stat, "hierarchical_memory_limit"); ok {
			return v
		}
	}
	return math.MaxInt64
}

// number reads a file that holds one whole number, 0 or more; "max" is none.
func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return v, err == nil && v >= 0
}

// numberAfter finds the number behind a key at the beginning of a line.
func numberAfter(text []byte, key string) (int64, bool) {
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) >= 2 && f[0] == key {
			v, err := strconv.ParseInt(f[1], 10, 64)
			return v, err == nil && v >= 0
		}
	}
	return 0, false
}
