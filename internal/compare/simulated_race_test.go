//go:build race

package compare_test

// simulatedGates is a twentieth of the targets' thousand: arithmetic takes five
// times as long under the race detector, and make test plays the thousand without it.
const simulatedGates = 50
