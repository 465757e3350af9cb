//go:build !linux && !windows

package dynlib

// Unable says why this build loads no library; empty where it does.
const Unable = "NVIDIA has no driver for this system"
