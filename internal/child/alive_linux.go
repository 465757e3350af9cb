package child

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"github.com/gpuprof/gpuprof/internal/owner"
)

// seesAll: alive finds every process of a group, also where its leader is gone.
const seesAll = true

// ownGroup also has the system ask a child to end whose parent died.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// alive are the processes that carry a mark or belong to a group (0: none), without
// those that ended and wait for their parent to take note.
func alive(mark string, group int) []int {
	var out []int
	entries, _ := os.ReadDir("/proc") // without it the group alone is signalled
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		f := owner.Stat(pid)
		if len(f) < 20 || f[0][0] == 'Z' || f[0][0] == 'X' {
			continue
		}
		if group != 0 && string(f[2]) == strconv.Itoa(group) || marked(pid, mark) {
			out = append(out, pid)
		}
	}
	return out
}

func marked(pid int, mark string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	if err != nil { // it is another user's, or gone
		return false
	}
	for kv := range bytes.SplitSeq(env, []byte{0}) {
		if v, ok := bytes.CutPrefix(kv, []byte(markVariable+"=")); ok && bytes.Contains(v, []byte(mark)) {
			return true
		}
	}
	return false
}

// inEnvironment reports whether a process other than this one has a setting NAME=VALUE in its
// environment.
func inEnvironment(setting string) bool {
	entries, _ := os.ReadDir("/proc") // without it none is known
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
