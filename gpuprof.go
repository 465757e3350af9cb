// Package gpuprof is the vocabulary of the gpuprof tool: results, findings, units
// and errors, the types that pass between what measures and what reports.
//
// A [Run] is the result of measuring a workload, [Stage] and [Check] are its parts,
// a [Finding] is advice with its evidence, [Error] is a failure with its fix. Devices
// and workloads are packages of their own (workloads, workloads/device). This package
// holds types and the small pure functions on them, and imports only the standard library
// and internal/loadtest.
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
