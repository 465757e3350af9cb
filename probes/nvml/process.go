package nvml

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Process is a process with a context on a GPU.
type Process struct {
	PID    int            `json:"pid"`
	Name   string         `json:"name"`   // command name; "" if it cannot be read
	Kind   string         `json:"kind"`   // compute, mps or graphics
	Memory gpuprof.Number `json:"memory"` // device memory in bytes, or unknown
	Own    bool           `json:"own"`    // this process, a descendant, or the gpuprof that started this process
}

type procs struct {
	root string // "/proc"
	self int
}

func thisProcs() procs { return procs{"/proc", os.Getpid()} }

// initialNamespace is the first PID namespace (PROC_PID_INIT_INO in the Linux sources); containers have others.
const initialNamespace = "pid:[4026531836]"

// isContained reports whether this process has its own PID namespace; NVML may then report PIDs of an outer one.
func (p procs) isContained() bool {
	link, err := os.Readlink(filepath.Join(p.root, "self", "ns", "pid"))
	return err == nil && link != initialNamespace
}

// markOwn fills in names and marks our own processes. holding reports that this process has a context on the device. In
// a container NVML may report this process by a PID of an outer namespace: then one unknown process counts as this one.
func (p procs) markOwn(list []Process, holding bool) []Process {
	self := slices.ContainsFunc(list, func(q Process) bool { return q.PID == p.self })
	contained := p.isContained()
	for i := range list {
		q := &list[i]
		q.Name = p.commandName(q.PID)
		q.Own = p.isOurs(q.PID)
		if q.Name == "" && !q.Own && contained && holding && !self {
			q.Own, self = true, true
		}
	}
	return list
}

func countForeign(list []Process) int {
	n := 0
	for _, q := range list {
		if !q.Own {
			n++
		}
	}
	return n
}

func (p procs) commandName(pid int) string {
	b, err := os.ReadFile(filepath.Join(p.root, strconv.Itoa(pid), "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// isOurs reports whether pid is this process, a descendant, or the gpuprof that started this process and waits for it.
// That gpuprof opened the device to check the settings, so that NVML lists its process until its end.
func (p procs) isOurs(pid int) bool {
	return p.isBelow(pid, p.self) || p.commandName(pid) != "" && p.commandName(pid) == p.commandName(p.self) && p.isBelow(p.self, pid)
}

// isBelow reports whether ancestor is pid or one of pid's ancestors.
func (p procs) isBelow(pid, ancestor int) bool {
	for range 64 { // a longer chain is a cycle through a reused PID
		if pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
		b, err := os.ReadFile(filepath.Join(p.root, strconv.Itoa(pid), "stat"))
		if err != nil {
			return false
		}
		// The format is "pid (command) state parent …"; the command may contain any character.
		rest := string(b[strings.LastIndexByte(string(b), ')')+1:])
		f := strings.Fields(rest)
		if len(f) < 2 {
			return false
		}
		parent, err := strconv.Atoi(f[1])
		if err != nil {
			return false
		}
		pid = parent
	}
	return false
}
