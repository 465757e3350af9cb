// Package baselines has the reference figures that gpuprof ships. It holds only data; every figure states where it
// was measured.
package baselines

import _ "embed" // the data

//go:embed ranges.json
var ranges []byte

// Ranges returns ranges.json: the figures of healthy devices in doctor --bench.
func Ranges() []byte { return ranges }
