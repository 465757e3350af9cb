//go:build !race

// The race detector sees nothing of a process that it is not built into, and built into it
// a process takes ten times as long: TestProcesses starts those whose goroutines are main's.

package main

import "testing"

func TestScripts(t *testing.T) {
	t.Parallel() // like the help's examples: both mostly wait for processes
	runScripts(t, "testdata/script")
}
