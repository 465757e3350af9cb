//go:build nightly && !race

// Each of these starts dozens of processes, in which the race detector is not built.

package main

import "testing"

// By day TestHelpExamples runs an example of every verb, and TestScripts has serving at one load and one rate.
func TestNightScripts(t *testing.T) {
	t.Parallel()
	runScripts(t, "testdata/nightly")
}
