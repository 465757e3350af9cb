//go:build !windows && !(linux && !nodlopen)

package machinecode

// archive is empty, because these builds do not use a GPU.
var archive []byte
