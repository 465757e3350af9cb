package record

import (
	"os"
	"syscall"
)

// passedOn lists the console's events. The console sends them to every program, so this process only ignores them.
func passedOn() []os.Signal { return []os.Signal{os.Interrupt} }

// askToEnd cannot be sent on Windows; the caller kills the program instead.
const askToEnd = syscall.SIGTERM

func foreground() (front, terminal bool) { return true, true }
