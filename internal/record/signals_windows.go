package record

import "os"

// passedOn are the events that a console sends: to every program of it by itself,
// so this process has only to outlive them.
func passedOn() []os.Signal { return []os.Signal{os.Interrupt} }

func foreground() (front, terminal bool) { return true, true }
