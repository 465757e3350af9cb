//go:build unix && !linux

package child

import "syscall"

// seesAll is false: only whole groups are found here.
const seesAll = false

func newGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func liveProcesses(string, int, uint64) []int { return nil }

func hasSetting(string) bool { return false }
