package nvml

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Process is a program that has a context on a GPU.
type Process struct {
	PID    int            `json:"pid"`
	Name   string         `json:"name"`   // its command's; empty where it cannot be seen from here
	Kind   string         `json:"kind"`   // compute, mps or graphics
	Memory gpuprof.Number `json:"memory"` // bytes on the device, or unknown
	Own    bool           `json:"own"`    // this process, a descendant, or the gpuprof that started it
}

// procs is the process table that PIDs are looked up in.
type procs struct {
	root string // "/proc"
	self int
}

func thisProcs() procs { return procs{"/proc", os.Getpid()} }

// initialNamespace is the number of the first PID namespace (PROC_PID_INIT_INO
// of the Linux sources); every container has another.
const initialNamespace = "pid:[4026531836]"

// contained reports whether this process counts PIDs on its own, so that those
// NVML tells may be the outer ones.
func (p procs) contained() bool {
	link, err := os.Readlink(filepath.Join(p.root, "self", "ns", "pid"))
	return err == nil && link != initialNamespace
}

// mark fills in names and says which processes are our own. holding says
// whether this process has a context on the device: in a container NVML may
// count us by a number that means nothing here, and one such process is us.
func (p procs) mark(list []Process, holding bool) []Process {
	self := slices.ContainsFunc(list, func(q Process) bool { return q.PID == p.self })
	contained := p.contained()
	for i := range list {
		q := &list[i]
		q.Name = p.name(q.PID)
		q.Own = p.ours(q.PID)
		if q.Name == "" && !q.Own && contained && holding && !self {
			q.Own, self = true, true
		}
	}
	return list
}

func foreign(list []Process) int {
	n := 0
	for _, q := range list {
		if !q.Own {
			n++
		}
	}
	return n
}

func (p procs) name(pid int) string {
	b, err := os.ReadFile(filepath.Join(p.root, strconv.Itoa(pid), "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// ours reports whether pid is this process, a descendant, or the gpuprof that
// started it (of the same name) and waits: it asked the device whether it can
// honour the settings, and NVML lists it until it ends.
func (p procs) ours(pid int) bool {
	return p.below(pid, p.self) || p.name(pid) != "" && p.name(pid) == p.name(p.self) && p.below(p.self, pid)
}

// below follows the parents of pid up to ancestor.
func (p procs) below(pid, ancestor int) bool {
	for range 64 { // deeper trees end in a loop of a PID used again
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
		// "pid (command) state parent …", and a command may hold anything.
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
