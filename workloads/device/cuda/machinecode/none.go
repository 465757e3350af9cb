//go:build nomachinecode || (!windows && !(linux && !nodlopen))

package machinecode

// Either no GPU is reached in these builds, or they must be small: the driver compiles the PTX.
var archive []byte
