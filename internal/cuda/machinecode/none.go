//go:build !windows && !(linux && !nodlopen)

package machinecode

// No GPU is reached in these builds.
var archive []byte
