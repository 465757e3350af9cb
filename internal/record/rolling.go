package record

import (
	"cmp"
	"os"
	"slices"
)

// rollMB is the size of one file of a process's rolling recording, MB.
const rollMB = 64

// groupByProcess returns a folder's recordings by process id, each in the order of their numbers.
func groupByProcess(dir string) map[int][]string {
	out := map[int][]string{}
	for _, path := range listRecordings(dir) {
		out[pidOf(path)] = append(out[pidOf(path)], path)
	}
	for _, files := range out {
		slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	}
	return out
}

// keepNewest keeps each process's current recording and the previous one, and removes older ones.
func keepNewest(dir string) {
	for _, files := range groupByProcess(dir) {
		for _, path := range files[:max(0, len(files)-2)] {
			_ = os.Remove(path)
		}
	}
}

// keepBest keeps each process's largest recording: the last one, or the previous one if the last had just begun.
func keepBest(dir string) {
	for _, files := range groupByProcess(dir) {
		best := slices.MaxFunc(files, func(a, b string) int { return cmp.Compare(sizeOf(a), sizeOf(b)) })
		for _, path := range files {
			if path != best {
				_ = os.Remove(path)
			}
		}
	}
}
