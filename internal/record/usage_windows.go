package record

import (
	"os"
	"time"
)

// Windows tells no peak memory with a process's end: it is unknown.

func ownPeak() int64 { return 0 }

func peakOf(*os.ProcessState) int64 { return 0 }

// threadTime is unknown: there is no /proc to sample either.
func threadTime() time.Duration { return 0 }
