//go:build !linux && !windows

package dynlib

// Unable is the reason why this build loads no library; empty if it does.
const Unable = "NVIDIA has no driver for this system"
