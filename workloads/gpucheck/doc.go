// Package gpucheck tests what only a real GPU can show: that results at the workloads' full sizes are right and
// repeatable, that the measuring protocol is accurate, and the device's peak performance.
//
// Under go test the tests run on the simulated driver at tiny sizes: results are compared with float64 references, and
// no time is judged. With GPUPROF_DEVICE=cuda they run on the installed driver's GPU at full size, with every limit in
// force; scripts/gpucheck starts them from a compiled test binary, on machines without Go. The tests write each figure
// as a line of JSON to the file GPUPROF_FIGURES (see figure); on the simulator its value is null.
package gpucheck
