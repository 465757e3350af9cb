package host

import (
	"bytes"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// GPU is what the machine shows of an NVIDIA GPU, without opening it.
type GPU struct {
	Driver  string   // path of libcuda.so.1, or "in the loader's cache"; empty when absent
	Nodes   []string // /dev/nvidia0, …
	Version string   // of the kernel module; empty when it is not loaded
}

// FindGPU looks for the driver's library where the dynamic loader would, and
// for its device nodes.
func (m Machine) FindGPU() GPU {
	g := GPU{Driver: m.findLibrary("libcuda.so.1"), Nodes: m.glob("dev/nvidia[0-9]*")}
	if s, err := m.text("proc/driver/nvidia/version"); err == nil {
		for _, f := range strings.Fields(s) {
			if strings.Count(f, ".") >= 1 && f[0] >= '0' && f[0] <= '9' {
				g.Version = f
				break
			}
		}
	}
	return g
}

// Why says in one clause what keeps a GPU from being used; empty when the
// driver and a device are both there.
func (g GPU) Why() string {
	switch {
	case g.Driver == "" && len(g.Nodes) == 0:
		return "no NVIDIA GPU was found (no libcuda.so.1 in the loader's path, no /dev/nvidia0)"
	case g.Driver == "":
		return "an NVIDIA device node exists, but the driver library libcuda.so.1 is not in the loader's path"
	case len(g.Nodes) == 0:
		return "the driver library libcuda.so.1 is installed, but there is no device node /dev/nvidia0"
	}
	return ""
}

// Fix is what to do about Why.
func (g GPU) Fix() string {
	switch {
	case g.Driver == "" && len(g.Nodes) == 0:
		return "run on a machine with an NVIDIA GPU; in a container, start it with --gpus all"
	case g.Driver == "":
		return "install the NVIDIA driver's user libraries, or add their folder to LD_LIBRARY_PATH"
	case len(g.Nodes) == 0:
		return "load the kernel module with nvidia-modprobe; in a container, start it with --gpus all"
	}
	return ""
}

// findLibrary searches LD_LIBRARY_PATH, the loader's cache, its configuration
// and its built-in folders.
func (m Machine) findLibrary(name string) string {
	dirs := strings.Split(m.getenv("LD_LIBRARY_PATH"), ":")
	dirs = append(dirs, m.loaderDirs()...)
	for _, d := range dirs {
		if !path.IsAbs(d) {
			continue
		}
		if p := path.Join(d, name); m.exists(p[1:]) {
			return p
		}
	}
	if b, err := fs.ReadFile(m.fsys, "etc/ld.so.cache"); err == nil && bytes.Contains(b, []byte(name+"\x00")) {
		return "in the loader's cache"
	}
	return ""
}

func (m Machine) loaderDirs() []string {
	var dirs []string
	for _, conf := range append([]string{"/etc/ld.so.conf"}, m.glob("etc/ld.so.conf.d/*.conf")...) {
		s, err := m.text(conf[1:])
		if err != nil {
			continue
		}
		for line := range strings.Lines(s) {
			if line = strings.TrimSpace(line); path.IsAbs(line) {
				dirs = append(dirs, line)
			}
		}
	}
	return append(dirs, slices.Clone(builtinDirs)...)
}

var builtinDirs = []string{
	"/lib", "/usr/lib", "/lib64", "/usr/lib64",
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
	"/usr/lib/wsl/lib", // where WSL mounts the driver of Windows
}
