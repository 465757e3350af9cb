//go:build !unix

package gridsim

func minorFaults() int64 { return -1 }
