package child

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"github.com/gpuprof/gpuprof/internal/owner"
)

// seesAll reports whether liveProcesses finds the processes of a group whose leader has ended.
const seesAll = true

// newGroup returns the attributes of a child that starts in a process group of its own and gets SIGTERM if its parent
// dies.
func newGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// liveProcesses returns the processes, without zombies, that have a mark in their environment or are in a group (0:
// none). It skips processes that started before since (ticks as of owner.StartOf): reading the environment of every
// process is slow.
func liveProcesses(mark string, group int, since uint64) []int {
	var out []int
	entries, _ := os.ReadDir("/proc") // without /proc only the group is signalled
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		f := owner.Stat(pid)
		if len(f) < 20 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		if start, err := strconv.ParseUint(string(f[19]), 10, 64); err == nil && start < since {
			continue
		}
		if group != 0 && string(f[2]) == strconv.Itoa(group) || hasMark(pid, mark) {
			out = append(out, pid)
		}
	}
	return out
}

func hasMark(pid int, mark string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil { // another user's process, or an ended process
		return false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(markVariable+"=")); ok && bytes.Contains(v, []byte(mark)) {
			return true
		}
	}
	return false
}

// hasSetting reports whether another process has NAME=VALUE in its environment.
func hasSetting(setting string) bool {
	entries, _ := os.ReadDir("/proc") // without /proc no process is known
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(append(env, 0), []byte(setting+"\x00")) {
			return true
		}
	}
	return false
}
