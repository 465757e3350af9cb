package record

import (
	"cmp"
	"os"
	"slices"
)

// rollMB is how much of a process's recording one file holds while the program is watched.
const rollMB = 64

// byProcess are the recordings of a folder, of each process in the order of their numbers.
func byProcess(dir string) map[int][]string {
	out := map[int][]string{}
	for _, path := range recordings(dir) {
		out[pidOf(path)] = append(out[pidOf(path)], path)
	}
	for _, files := range out {
		slices.SortFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	}
	return out
}

// keepNewest removes, of each process, what is older than the recording before the one that is
// being written.
func keepNewest(dir string) {
	for _, files := range byProcess(dir) {
		for _, path := range files[:max(0, len(files)-2)] {
			_ = os.Remove(path) // a leftover takes room only
		}
	}
}

// keepBest keeps of each process the last recording or, where that had just begun, the one before.
func keepBest(dir string) {
	for _, files := range byProcess(dir) {
		best := slices.MaxFunc(files, func(a, b string) int { return cmp.Compare(sizeOf(a), sizeOf(b)) })
		for _, path := range files {
			if path != best {
				_ = os.Remove(path)
			}
		}
	}
}
