// Package gpuprof defines the types that pass between measuring and reporting code: results, findings, errors.
//
// A [Run] is the result of measuring a workload, with its [Stage] and [Check] parts; a [Finding] is a proposal with
// evidence; an [Error] is a failure with its fix. Devices and workloads have their own packages (workloads,
// workloads/device). This package has only types with small pure functions, and imports only the standard library
// and internal/loadtest.
package gpuprof

// Mode determines what a step time means. Times of different modes are never compared.
type Mode string

const (
	// Steady changes the inputs between steps, like a loop over a data set.
	Steady Mode = "steady"
	// Cold clears the caches before every step (GPU only).
	Cold Mode = "cold"
	// Hot repeats steps with the same input.
	Hot Mode = "hot"
	// HostClock times steps by the caller's clock, launches included.
	HostClock Mode = "host"
)

// Modes lists all modes in the order of the help text.
func Modes() []Mode { return []Mode{Steady, Cold, Hot, HostClock} }
