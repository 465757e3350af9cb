//go:build unix && !linux

package child

import "syscall"

// seesAll is false: on this system, processes are found only by their process group.
const seesAll = false

func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func liveProcesses(string, int, uint64) []int { return nil }

func hasSetting(string) bool { return false }
