// Package record runs an unmodified program and records it: a few steps of a PyTorch program through an embedded
// Python hook, the GPU work of any program through a library that the CUDA driver loads into it, a whole program
// through Nsight Systems, and always wall time, memory and processor time.
//
// # The program stays undisturbed
//
// The program keeps its standard input, output and error, gets every signal once, and gpuprof exits with its exit
// code. The hook has its own folder, first on PYTHONPATH, and reports through a file of JSON lines; it never raises
// into the program. If recording fails, the result has a warning; the program and its exit code stay the same.
package record
