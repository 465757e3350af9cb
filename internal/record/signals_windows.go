package record

import (
	"os"
	"syscall"
)

// passedOn are the events that a console sends: to every program of it by itself,
// so this process has only to outlive them.
func passedOn() []os.Signal { return []os.Signal{os.Interrupt} }

// askToEnd is a signal that no program of this system can be sent: it is ended at once.
const askToEnd = syscall.SIGTERM

func foreground() (front, terminal bool) { return true, true }
