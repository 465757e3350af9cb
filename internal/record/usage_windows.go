package record

import (
	"os"
	"time"
)

// Windows reports no peak memory at a process's end: it is unknown.

func selfPeak() int64 { return 0 }

func peakOf(*os.ProcessState) int64 { return 0 }

// threadTime is 0, which means unknown; Windows has no /proc to sample either.
func threadTime() time.Duration { return 0 }
