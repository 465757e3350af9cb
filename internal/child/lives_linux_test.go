package child

// lives reports whether a process runs; one that waits for its parent to take note
// does not.
func lives(pid int) bool {
	f := statOf(pid)
	return len(f) > 0 && f[0][0] != 'Z'
}
