//go:build !windows && !(linux && !nodlopen)

package machinecode

// These builds do not use a GPU.
var archive []byte
