// Package gpuprof is the vocabulary of the gpuprof tool: the types that pass
// between devices, probes, workloads, the measuring loop and the reports.
//
// A run's data flows in one direction. A [Workload] opens a [Session] on a
// [Device]; each Session.Step brackets its work with a [Probe]; the measuring
// loop turns the probe's spans into a [Run], which is never changed again;
// reports are pure functions of it. This package holds types and the small
// pure functions on them, and imports only the standard library.
package gpuprof

// Mode is an estimand: what a step time means. Modes are never mixed.
type Mode string

const (
	// Steady rotates inputs between steps, as a loop over a data set does.
	Steady Mode = "steady"
	// Cold clears the caches before every step (GPU only).
	Cold Mode = "cold"
	// Hot repeats the same input back to back.
	Hot Mode = "hot"
	// HostClock times the step on the caller's clock, launches included.
	HostClock Mode = "host"
)

// Modes lists every mode in the order help texts print them.
func Modes() []Mode { return []Mode{Steady, Cold, Hot, HostClock} }
