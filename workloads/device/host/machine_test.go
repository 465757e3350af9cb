package host

import (
	"math"
	"runtime"
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

func TestDefaultMemoryLimit(t *testing.T) {
	const (
		meminfo = "MemTotal:       24684288 kB\nMemFree:  20 kB\nMemAvailable:   1000 kB\n"
		avail   = 1000 << 10
		unknown = -1
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64 // before a tenth is taken off
	}{
		"nothing known": {nil, unknown},
		"meminfo":       {map[string]string{"proc/meminfo": meminfo}, avail},
		"a group around the process": {map[string]string{
			"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/memory.max": "1000\n", "sys/fs/cgroup/a/memory.current": "400\n",
		}, 600},
	} {
		t.Run(name, func(t *testing.T) {
			want := c.want / 10 * 9
			if c.want == unknown {
				want = assumedMemory
			}
			if got := defaultMemoryLimit(tree(c.files)); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		})
	}
}

func TestReadMachine(t *testing.T) {
	const dir = "sys/devices/system/cpu/cpu0/cache/"
	m := readMachine(tree(map[string]string{
		"proc/cpuinfo":         "processor\t: 0\nmodel name\t: Some CPU 9000: fast\n\nmodel name\t: other\n",
		dir + "index0/level":   "1\n",
		dir + "index0/type":    "Data\n",
		dir + "index0/size":    "32K\n",
		dir + "index1/level":   "4\n",
		dir + "index1/type":    "Instruction\n",
		dir + "index1/size":    "1G\n",
		dir + "index3/level":   "3\n",
		dir + "index3/type":    "Unified\n",
		dir + "index3/size":    "24M\n",
		dir + "index9/level":   "broken\n",
		dir + "index9/type":    "Unified\n",
		dir + "uevent/ignored": "",
	}))
	if m.model != "Some CPU 9000: fast" || m.cache != 24<<20 || m.facts["last_level_cache"] != "" || m.facts["cpu_flags"] == "" {
		t.Errorf("got %+v", m)
	}
	m = readMachine(tree(nil))
	if m.model != "unknown "+runtime.GOARCH+" processor" || m.cache != assumedCache || m.facts["last_level_cache"] == "" {
		t.Errorf("with nothing to read: %+v", m)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "12\n": 12, "32768K": 32 << 20, " 7 kB ": 7 << 10, "2M": 2 << 20, "1G": 1 << 30,
		"max": -1, "": -1, "-5": -1, "1T": -1, "9223372036854775807K": -1, "5 KB K": -1, "K": -1,
	} {
		got, ok := parseSize(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, ok, want)
		}
	}
	if n, ok := parseSize("9223372036854775807"); !ok || n != math.MaxInt64 {
		t.Errorf("the largest number: %d, %v", n, ok)
	}
}
