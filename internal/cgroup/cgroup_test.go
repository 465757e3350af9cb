package cgroup

import (
	"math"
	"slices"
	"testing"
	"testing/fstest"
)

func tree(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	meminfo  = "MemTotal:       24684288 kB\nMemFree:  20 kB\nMemAvailable:   1000 kB\n"
	free     = 1000 << 10
	nothing  = math.MaxInt64
	v2       = "sys/fs/cgroup/"
	v1       = "sys/fs/cgroup/memory/"
	mountTwo = "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
)

// TestMemory is every place where a limit may be set, as systems and containers
// show it.
func TestMemory(t *testing.T) {
	for name, c := range map[string]struct {
		files            map[string]string
		available, limit int64
	}{
		"nothing known": {nil, nothing, nothing},
		"meminfo":       {map[string]string{"proc/meminfo": meminfo}, free, nothing},
		"no such line":  {map[string]string{"proc/meminfo": "MemTotal: 5 kB\n"}, nothing, nothing},
		"v2": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			v2 + "a/b/memory.max": "500000\n", v2 + "a/b/memory.current": "200000\n",
			v2 + "a/b/memory.stat": "anon 150000\ninactive_file 50000\n",
		}, 350000, 500000},
		"v2, parent is tighter": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			v2 + "a/b/memory.max": "max\n", v2 + "a/b/memory.current": "20\n",
			v2 + "a/memory.max": "1000\n", v2 + "a/memory.current": "400\n",
		}, 600, 1000},
		"v2, throttled before it is ended": {map[string]string{
			"proc/self/cgroup": "0::/a\n", v2 + "a/memory.max": "5000\n", v2 + "a/memory.high": "3000\n", v2 + "a/memory.current": "400\n",
		}, 2600, 3000},
		"v2, unlimited": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/\n", v2 + "memory.max": "max\n", v2 + "memory.current": "20\n",
		}, free, nothing},
		"v2, over the limit": {map[string]string{
			"proc/self/cgroup": "0::/\n", v2 + "memory.max": "100\n", v2 + "memory.current": "200\n",
		}, 0, 100},
		"v2, seen from a namespace": {map[string]string{
			"proc/self/cgroup": "0::/../../outside\n", v2 + "memory.max": "3000\n", v2 + "memory.current": "1000\n",
		}, 2000, 3000},
		// A container without a namespace: /proc names the outer path, the mount begins
		// at the container's group, and a job has a group of its own in it.
		"v2, nested in a container": {map[string]string{
			"proc/self/cgroup":    "0::/docker/abc/job\n",
			"proc/self/mountinfo": "30 24 0:26 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
			v2 + "memory.max":     "9000\n", v2 + "memory.current": "2000\n",
			v2 + "job/memory.max": "4000\n", v2 + "job/memory.current": "1500\n",
		}, 2500, 4000},
		"v2, mounted elsewhere": {map[string]string{
			"proc/self/cgroup":            "4:memory:/\n0::/job\n",
			"proc/self/mountinfo":         "31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n32 24 0:28 / /my\\040groups rw - cgroup none rw,memory\n",
			v2 + "unified/job/memory.max": "700\n", v2 + "unified/job/memory.current": "100\n",
			"my groups/memory.limit_in_bytes": "900\n", "my groups/memory.usage_in_bytes": "400\n",
		}, 500, 700},
		"v1": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/g\n0::/\n",
			v1 + "g/memory.limit_in_bytes": "9000\n", v1 + "g/memory.usage_in_bytes": "5000\n",
			v1 + "g/memory.stat":         "cache 1\ninactive_file 1\ntotal_inactive_file 1000\n",
			v1 + "memory.limit_in_bytes": "9223372036854771712\n", v1 + "memory.usage_in_bytes": "7\n",
		}, 5000, 9000},
		"v1, parent is tighter": {map[string]string{
			"proc/self/cgroup":             "4:memory:/a/b\n",
			v1 + "a/memory.limit_in_bytes": "8000\n", v1 + "a/memory.usage_in_bytes": "7500\n",
			v1 + "a/b/memory.limit_in_bytes": "9223372036854771712\n", v1 + "a/b/memory.usage_in_bytes": "100\n",
		}, 500, 8000},
		"v1, a parent out of sight is tighter": {map[string]string{
			"proc/self/cgroup":           "4:memory:/docker/abc\n",
			"proc/self/mountinfo":        "33 24 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			v1 + "memory.limit_in_bytes": "9223372036854771712\n", v1 + "memory.usage_in_bytes": "300\n",
			v1 + "memory.stat": "hierarchical_memory_limit 2000\ntotal_inactive_file 100\n",
		}, 1800, 2000},
		"both, the other's mount is not taken": {map[string]string{
			"proc/self/cgroup": "0::/job\n", "proc/self/mountinfo": "1 1 0:1 / /else rw - cgroup none rw,memory\n" + mountTwo,
			v2 + "job/memory.max": "50\n", v2 + "job/memory.current": "20\n", "else/job/memory.max": "1\n",
		}, 30, 50},
		"garbage": {map[string]string{
			"proc/self/cgroup": "x\n0::/\n", "proc/self/mountinfo": "a b c\n - \n1 2 3 / /x\\04 - cgroup2 a b\n",
			v2 + "memory.max": "?\n", "proc/meminfo": "MemAvailable: many kB\n",
		}, nothing, nothing},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(c.files)
			if got := MemoryAvailable(root); got != c.available {
				t.Errorf("%d bytes available, want %d", got, c.available)
			}
			if got, ok := MemoryLimit(root); ok != (c.limit != nothing) || ok && got != c.limit {
				t.Errorf("limit %d, %t; want %d", got, ok, c.limit)
			}
		})
	}
}

// TestDirs: of two mounts the one that shows more of the groups is read.
func TestDirs(t *testing.T) {
	root := tree(map[string]string{
		"proc/self/cgroup": "3:cpu,cpuacct:/a/b\n0::/a/b\n",
		"proc/self/mountinfo": "1 1 0:1 /a/b /inner rw - cgroup2 none rw\n2 1 0:1 / /outer rw - cgroup2 none rw\n" +
			"3 1 0:2 /a /sys/fs/cgroup/cpu,cpuacct rw - cgroup none rw,cpu,cpuacct\n",
	})
	want := []string{"outer/a/b", "outer/a", "outer", "sys/fs/cgroup/cpu,cpuacct/b", "sys/fs/cgroup/cpu,cpuacct"}
	if got := Dirs(root, "cpu"); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	if got := Dirs(tree(nil), "cpu"); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}
