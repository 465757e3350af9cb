// Package gpucheck holds what only a real GPU can show, as tests: that results
// at the workloads' full sizes are right and repeatable, that the measuring
// protocol measures what it says, and what the card can do at best.
//
// The tests run in two ways. Under go test they run on the simulated driver at
// tiny sizes: results are compared with float64 references, the rest is walked
// through, and no time is judged. With GPUPROF_DEVICE=cuda they run on the
// installed driver's GPU at full size and every limit counts; scripts/gpucheck
// starts them so from a compiled test binary, on machines without Go.
//
// Every figure goes, one JSON object a line, to the file named by
// GPUPROF_FIGURES: see figure. On the simulator its value is null.
package gpucheck
