//go:build !windows && !(linux && !nodlopen)

package machinecode

// These builds reach no GPU.
var archive []byte
