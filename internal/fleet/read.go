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

// Job is what a bucket holds of one job.
type Job struct {
	World   int       // processes of the job: what they were told, or as many as the highest rank implies
	Told    bool      // some rank was told the number
	Objects []*Object // the latest attempt of each rank and kind, by kind and rank
	Missing []int     // ranks without an object
	// Problems are objects that were left out, each a sentence that names it.
	Problems []string
	Notes    []string
	// Elsewhere are the folders that hold objects of ranks where the bucket itself holds
	// none: below it, or Above.
	Elsewhere []string

	where string // the bucket, for errors
}

// Above is the folder above the bucket, in Elsewhere.
const Above = ".."

// poll is the time between two looks at a bucket that is not complete.
const poll = 500 * time.Millisecond

// Gather reads a bucket of objects. It waits until all ranks have left one, wait at
// most; pause is the clock. Objects that cannot be used are named in Problems: an
// error is one of the bucket.
func Gather(ctx context.Context, b bucket.Bucket, wait time.Duration, pause func(context.Context, time.Duration) error) (*Job, error) {
	known := map[string]*Object{}
	for {
		job, err := gather(ctx, b, known)
		if err != nil || wait <= 0 || len(job.Missing) == 0 && job.Told {
			return job, err
		}
		if err := pause(ctx, min(poll, wait)); err != nil {
			return nil, err
		}
		wait -= poll
	}
}

// gather reads what is not known yet: objects never change.
func gather(ctx context.Context, b bucket.Bucket, known map[string]*Object) (*Job, error) {
	names, err := b.List(ctx, "")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	job := &Job{where: b.String()}
	found := make([]*Object, len(names))
	errs := make([]error, len(names))
	atOnce(len(names), func(i int) {
		if !isObject(names[i]) {
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
		job.Elsewhere = elsewhere(names)
	}
	job.settle()
	return job, nil
}

// atOnce calls do for 0 to n-1, as many at a time as there are cores: most of a merge is
// the decoding of objects, which need nothing of each other.
func atOnce(n int, do func(i int)) {
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

// isObject reports whether a name is that of an object: kind/name. The recordings of the
// ranks lie deeper, and traces among them may end like an object.
func isObject(name string) bool {
	return strings.Count(name, "/") == 1 && objectName.MatchString(path.Base(name))
}

// elsewhere are the folders of jobs that names tell of, which is not the one that they are in.
func elsewhere(names []string) []string {
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

// read is one object of a bucket.
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

// settle keeps the latest attempt of each rank, and finds the ranks that are missing.
func (j *Job) settle() {
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

// RanksText names ranks, the first of many: "rank 3", "ranks 1, 2, 3 and 5 more".
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
