package machine

import (
	"cmp"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Driver is the result of loading the driver's library. Finding a file with the library's name is not enough: it may be
// no driver, or the driver of another machine.
type Driver struct {
	Path string // the loaded file; "" if none was loaded
	CUDA string // newest supported version, "12.4"
	Err  error  // why the driver cannot be used, with the fix
	// Absent reports that no driver library was found.
	Absent bool
}

// GPU describes the machine's NVIDIA GPUs by its files, without opening a device node.
type GPU struct {
	Driver  Driver
	Nodes   []string // /dev/nvidia0, …
	Shared  string   // the WSL 2 node for Windows' GPUs of any vendor; "" if Nodes is not empty
	Version string   // of the kernel module; "" if it is not loaded
	System  string   // as in runtime.GOOS
}

// isLinux reports whether the driver's library and device nodes follow Linux conventions.
func (g GPU) isLinux() bool { return g.System == "linux" }

// FindGPU looks for the GPU's device nodes and its kernel module.
func (m Machine) FindGPU(d Driver) GPU {
	g := GPU{Driver: d, Nodes: m.glob("dev/nvidia[0-9]*"), System: m.system}
	if shared := m.glob("dev/dxg"); len(g.Nodes) == 0 && len(shared) > 0 {
		g.Shared = shared[0]
	}
	if s, err := m.readText("proc/driver/nvidia/version"); err == nil {
		for _, f := range strings.Fields(s) {
			if strings.Count(f, ".") >= 1 && f[0] >= '0' && f[0] <= '9' {
				g.Version = f
				break
			}
		}
	}
	return g
}

// isWSL reports whether this is WSL 2, with a GPU shared by Windows. The driver must then be installed on Windows: a
// driver installed inside WSL would replace the shared one.
func (g GPU) isWSL() bool { return g.isLinux() && g.Shared != "" }

// Texts about a GPU under WSL; /usr/lib/wsl/lib is one of the folders in dynlib.Places.
const (
	whereWindowsPutsIt = "it is neither where the loader looks nor in /usr/lib/wsl/lib, where Windows puts it"
	installOnWindows   = "if the GPU is NVIDIA's, install its driver on Windows and not inside WSL, then run wsl --shutdown there; in a container, start it with --gpus all"
)

// Why returns the reason why no GPU can be used, as a clause; "" if driver and device are present.
func (g GPU) Why() string {
	switch {
	case g.Driver.Absent && !g.isLinux():
		return driverLine(g).Reason
	case g.Driver.Absent && g.isWSL():
		return "WSL 2 shows a GPU (" + g.Shared + "), but the driver library libcuda.so.1 is missing: " + whereWindowsPutsIt
	case g.Driver.Absent && len(g.Nodes) == 0:
		return "no NVIDIA GPU was found (no libcuda.so.1 in the loader's path, no /dev/nvidia0)"
	case g.Driver.Absent:
		return "an NVIDIA device node exists, but the driver library libcuda.so.1 is not in the loader's path"
	case g.Driver.Err != nil:
		return g.failedLine().Reason
	case len(g.Nodes) == 0 && g.isLinux() && !g.isWSL():
		return "the driver library libcuda.so.1 is installed, but there is no device node /dev/nvidia0"
	}
	return ""
}

// Fix returns the fix for Why.
func (g GPU) Fix() string {
	switch {
	case g.Driver.Absent && !g.isLinux():
		return driverLine(g).Fix
	case g.Driver.Absent && g.isWSL():
		return installOnWindows
	case g.Driver.Absent && len(g.Nodes) == 0:
		return "run on a machine with an NVIDIA GPU; in a container, start it with --gpus all"
	case g.Driver.Absent:
		return "install the NVIDIA driver's user libraries, or add their folder to LD_LIBRARY_PATH"
	case g.Driver.Err != nil:
		return g.failedLine().Fix
	case len(g.Nodes) == 0 && g.isLinux() && !g.isWSL():
		return "load the kernel module with nvidia-modprobe; in a container, start it with --gpus all"
	}
	return ""
}

func (g GPU) failedLine() gpuprof.CheckLine { return gpuprof.FailedCheck(driverName, g.Driver.Err) }

const driverName = "gpu driver"

func driverLine(g GPU) gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: driverName, State: gpuprof.OK, Found: g.Driver.Path}
	switch {
	case g.Driver.Absent && !g.isLinux():
		l, _ = unreadLine(g.System, l.Name)
		return l
	case g.Driver.Absent && g.isWSL():
		return gpuprof.CheckLine{Name: l.Name, State: gpuprof.Missing, Found: "no libcuda.so.1", Reason: whereWindowsPutsIt, Fix: installOnWindows}
	case g.Driver.Absent:
		return gpuprof.CheckLine{Name: l.Name, State: gpuprof.Missing, Found: "no libcuda.so.1",
			Reason: "it is neither in LD_LIBRARY_PATH nor in the loader's folders",
			Fix:    "install the NVIDIA driver, or add its folder to LD_LIBRARY_PATH"}
	case g.Driver.Err != nil:
		l = g.failedLine()
		if l.Found = g.Driver.Path; l.Found == "" {
			l.Found = "none that loads"
		}
	}
	if g.Driver.CUDA != "" {
		l.Found += ", CUDA " + g.Driver.CUDA
	}
	if g.Version != "" {
		l.Found += ", module " + g.Version
	}
	return l
}

func nodeLine(g GPU) gpuprof.CheckLine {
	if g.isWSL() {
		return gpuprof.CheckLine{Name: "gpu nodes", State: gpuprof.OK, Found: g.Shared + ", which WSL 2 has for every GPU of Windows"}
	}
	if len(g.Nodes) == 0 {
		return gpuprof.CheckLine{Name: "gpu nodes", State: gpuprof.Missing, Found: "no /dev/nvidia0",
			Reason: "there is no NVIDIA GPU, its kernel module is not loaded, or the container was not given it",
			Fix:    "load the module with nvidia-modprobe, or start the container with --gpus all"}
	}
	return gpuprof.CheckLine{Name: "gpu nodes", State: gpuprof.OK, Found: strings.Join(g.Nodes, " ")}
}

// gpuLine states that a GPU is used, or the reason noGPU.
func gpuLine(noGPU error, g GPU) gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "gpu", State: gpuprof.OK, Found: "used"}
	if noGPU != nil {
		reason, fix := gpuprof.FixOf(noGPU)
		l = gpuprof.CheckLine{Name: l.Name, State: gpuprof.Missing, Found: "not used", Reason: reason,
			Fix: cmp.Or(fix, g.Fix(), "measure on the host device, and see the line gpu devices")}
	}
	return l
}
