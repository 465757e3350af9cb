package child

import (
	"runtime"
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/owner"
)

// lives reports whether a process runs; one that waits for its parent to take note
// does not.
func lives(pid int) bool {
	f := owner.Stat(pid)
	return len(f) > 0 && f[0][0] != 'Z'
}

// A process that started before the program is none of its own, whatever its environment and its group are.
func TestOlderProcessesAreNotSearched(t *testing.T) {
	p, err := sh("read line").Start()
	if err != nil {
		t.Fatal(err)
	}
	for !hasMark(p.Pid(), p.mark) { // Linux shows no environment for a moment while it starts a program
		runtime.Gosched()
	}
	if p.began == 0 || p.began != owner.StartOf(p.Pid()) {
		t.Errorf("the program began at %d, want %d", p.began, owner.StartOf(p.Pid()))
	}
	for since, want := range map[uint64][]int{0: {p.Pid()}, p.began: {p.Pid()}, p.began + 1: nil} {
		for name, got := range map[string][]int{"mark": liveProcesses(p.mark, 0, since), "group": liveProcesses("no mark", p.Pid(), since)} {
			if !slices.Equal(got, want) {
				t.Errorf("since %d, by its %s: %v, want %v", since, name, got, want)
			}
		}
	}
	_ = p.End() // it ends by a signal
}
