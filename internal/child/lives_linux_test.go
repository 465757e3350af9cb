package child

import "github.com/gpuprof/gpuprof/internal/owner"

// lives reports whether a process runs; one that waits for its parent to take note
// does not.
func lives(pid int) bool {
	f := owner.Stat(pid)
	return len(f) > 0 && f[0][0] != 'Z'
}
