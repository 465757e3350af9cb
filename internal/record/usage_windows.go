package record

import "os"

// Windows tells no peak memory with a process's end: it is unknown.

func ownPeak() int64 { return 0 }

func peakOf(*os.ProcessState) int64 { return 0 }
