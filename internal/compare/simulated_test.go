//go:build !race

package compare_test

// simulatedGates is how many gates TestSimulatedGates plays.
const simulatedGates = 1000
