// Package record runs somebody else's program as it is and records what it
// does: a few steps of a PyTorch program through an embedded Python hook, any
// program's work on a GPU through a library that the CUDA driver loads into it,
// a whole program through Nsight Systems, and always its wall time, memory and
// processor time.
//
// # The program's own business
//
// The program keeps its standard input, output and error, gets every signal
// once and has its exit code handed on. The hook lies in a folder of its own,
// first on PYTHONPATH, and tells what it did through a file of JSON lines; it
// never raises into the program. Whatever goes wrong in recording is a note,
// never a reason to end the program or to change its exit code.
package record
