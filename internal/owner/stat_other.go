//go:build !linux

package owner

// StartOf is unknown here.
func StartOf(int) uint64 { return 0 }

func ended(int) bool { return false }
