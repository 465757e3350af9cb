//go:build !linux && !windows

package dynlib

// Unable is the reason why this build loads no library.
const Unable = "NVIDIA has no driver for this system"
