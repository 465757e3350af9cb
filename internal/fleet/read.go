package fleet

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/launch"
)

// Job holds the objects of one job in a bucket.
type Job struct {
	World   int       // number of processes: the launcher's, or the highest rank plus one
	Told    bool      // a launcher gave the number
	Objects []*Object // the latest attempt of each rank and kind, by kind and rank
	Missing []int     // ranks without an object
	// Problems has a sentence for each unusable object.
	Problems []string
	Notes    []string
	// Elsewhere lists folders with objects, below the bucket or Above, if the bucket itself has no object.
	Elsewhere []string

	where string // name of the bucket, for errors
}

// Above is the parent folder in Elsewhere.
const Above = ".."

// poll is the interval between two reads of an incomplete bucket.
const poll = 500 * time.Millisecond

// Gather reads the objects of a bucket and waits up to wait for all ranks. pause sleeps; tests replace it. Unusable
// objects are in Problems; an error concerns the whole bucket.
func Gather(ctx context.Context, b bucket.Bucket, wait time.Duration, pause func(context.Context, time.Duration) error) (*Job, error) {
	known := map[string]*Object{}
	for {
		job, err := gatherOnce(ctx, b, known)
		if err != nil || wait <= 0 || len(job.Missing) == 0 && job.Told {
			return job, err
		}
		if err := pause(ctx, min(poll, wait)); err != nil {
			return nil, err
		}
		wait -= poll
	}
}

// gatherOnce reads the objects that known lacks; objects never change.
func gatherOnce(ctx context.Context, b bucket.Bucket, known map[string]*Object) (*Job, error) {
	names, err := b.List(ctx, "")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	job := &Job{where: b.String()}
	found := make([]*Object, len(names))
	errs := make([]error, len(names))
	parallelFor(len(names), func(i int) {
		if !IsObject(names[i]) {
			return
		}
		if found[i] = known[names[i]]; found[i] == nil {
			found[i], errs[i] = read(ctx, b, names[i])
		}
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, name := range names {
		switch {
		case errs[i] != nil:
			job.Problems = append(job.Problems, document.CleanText(errs[i].Error()))
		case found[i] != nil:
			known[name] = found[i]
			job.Objects = append(job.Objects, found[i])
		}
	}
	if len(job.Objects) == 0 && len(job.Problems) == 0 {
		job.Elsewhere = findJobFolders(names)
	}
	job.keepLatest()
	return job, nil
}

// parallelFor calls do for 0 to n-1 on all cores. Most of a merge is decoding independent objects.
func parallelFor(n int, do func(i int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	workers.Wait()
}

// IsObject reports whether a name has the form kind/object. Recordings are in deeper folders, where traces may have the
// same extension.
func IsObject(name string) bool {
	return strings.Count(name, "/") == 1 && objectName.MatchString(path.Base(name))
}

// findJobFolders returns the job folders of the objects among names.
func findJobFolders(names []string) []string {
	var out []string
	for _, name := range names {
		if !objectName.MatchString(path.Base(name)) {
			continue
		}
		folder := Above
		if kind := path.Dir(name); kind != "." {
			folder = path.Dir(kind)
		}
		if !slices.Contains(out, folder) {
			out = append(out, folder)
		}
	}
	return out
}

func read(ctx context.Context, b bucket.Bucket, name string) (*Object, error) {
	const again = "it was cut off or changed: have this rank measure again"
	text, err := bucket.Text(ctx, b, name, again)
	if err != nil {
		return nil, err
	}
	o := &Object{name: name}
	if err := document.Decode(text, name, o, document.Rank); err != nil {
		return nil, err
	}
	if o.Rank < 0 || o.World < 0 || o.World > 0 && o.Rank >= o.World || o.Rank > launch.MostRanks || o.World > launch.MostRanks {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading %s: there is no rank %d of %d", name, o.Rank, o.World).WithFix(again)
	}
	return o, nil
}

// keepLatest keeps the latest attempt of each rank and kind, and finds the missing ranks.
func (j *Job) keepLatest() {
	slices.SortStableFunc(j.Objects, func(a, b *Object) int {
		return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.Rank, b.Rank), cmp.Compare(b.Attempt, a.Attempt), b.Started.Compare(a.Started), cmp.Compare(a.name, b.name))
	})
	var twice []int
	j.Objects = slices.CompactFunc(j.Objects, func(a, b *Object) bool {
		same := a.Of == b.Of && a.Rank == b.Rank
		if same && a.Attempt == b.Attempt {
			twice = append(twice, a.Rank)
		}
		return same
	})
	if twice = slices.Compact(twice); len(twice) > 0 {
		j.Notes = append(j.Notes, fmt.Sprintf("more than one object of one attempt was found for %s: the one that was started last is used", RanksText(twice)))
	}
	worlds, here, jobs := map[gpuprof.DocumentKind]int{}, map[gpuprof.DocumentKind]map[int]bool{}, []string{}
	for _, o := range j.Objects {
		if here[o.Of] == nil {
			here[o.Of] = map[int]bool{}
		}
		here[o.Of][o.Rank] = true
		worlds[o.Of], j.Told = max(worlds[o.Of], o.World, o.Rank+1), j.Told || o.World > 0
		if o.Job != "" && !slices.Contains(jobs, o.Job) {
			jobs = append(jobs, o.Job)
		}
	}
	if len(jobs) > 1 {
		slices.Sort(jobs)
		j.Notes = append(j.Notes, fmt.Sprintf("the objects are of %d jobs (%s): give every job a folder of its own", len(jobs), strings.Join(jobs[:min(len(jobs), 5)], ", ")))
	}
	for kind, world := range worlds {
		j.World = max(j.World, world)
		for r := range world {
			if !here[kind][r] {
				j.Missing = append(j.Missing, r)
			}
		}
	}
	slices.Sort(j.Missing)
	j.Missing = slices.Compact(j.Missing)
}

// RanksText lists ranks and abbreviates long lists: "rank 3", "ranks 1, 2, 3 and 5 more".
func RanksText(ranks []int) string {
	if len(ranks) == 1 {
		return fmt.Sprint("rank ", ranks[0])
	}
	const most = 8
	var names []string
	for _, r := range ranks[:min(len(ranks), most)] {
		names = append(names, fmt.Sprint(r))
	}
	text := "ranks " + strings.Join(names, ", ")
	if more := len(ranks) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
