// Package baselines carries the reference figures that are shipped with gpuprof.
// It holds data only; every figure says where it was measured.
package baselines

import _ "embed" // the data

//go:embed ranges.json
var ranges []byte

// Ranges is ranges.json: what healthy devices reach in doctor --bench.
func Ranges() []byte { return ranges }
