package record

import (
	"os"
	"time"
)

// Windows reports no peak memory when a process ends: 0 means unknown.

func selfPeak() int64 { return 0 }

func peakOf(*os.ProcessState) int64 { return 0 }

// threadTime returns 0, for unknown; Windows has no /proc to sample anyway.
func threadTime() time.Duration { return 0 }
