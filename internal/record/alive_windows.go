package record

// alive says that a process is there; the recorder is not for Windows.
func alive(int) bool { return false }
