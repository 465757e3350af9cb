package fleet

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

// trainingJob is 8 ranks whose step takes about 12 ms.
func trainingJob(edit func(*tracetest.Job)) tracetest.Job {
	j := tracetest.Job{Ranks: 8, Steps: 8, Layers: 12, Buckets: 4, Seed: 1, LayerNS: 200_000, ReduceNS: 400_000, Noise: 0.02, EndJitterNS: 10_000}
	if edit != nil {
		edit(&j)
	}
	return j
}

// traced are the collectives of each rank of a job, by way of its traces as text.
func traced(t testing.TB, s *tracetest.Simulation, ranks int) []analyze.Collectives {
	t.Helper()
	var out []analyze.Collectives
	for rank := range ranks {
		var text bytes.Buffer
		if err := s.Write(&text, rank); err != nil {
			t.Fatal(err)
		}
		tr, err := kineto.Read(context.Background(), &text, "trace.json", 0)
		if err != nil {
			t.Fatal(err)
		}
		x, err := analyze.NewIndex(context.Background(), tr)
		if err != nil {
			t.Fatal(err)
		}
		c := analyze.CollectivesOf([]*analyze.Index{x})
		if len(c) != 1 {
			t.Fatalf("rank %d has %d devices with collectives", rank, len(c))
		}
		out = append(out, c[0])
	}
	return out
}

// programOf is the object of a rank's program with the traces that it recorded.
func programOf(traces ...analyze.Collectives) *Program {
	return &Program{Head: document.NewHead(document.Program, by()), Command: []string{"python", "train.py"}, WallS: 60, Folder: "job/recording/x", Warnings: []gpuprof.Warning{}, Traces: traces}
}

// jobOf leaves an object of each rank and merges them.
func jobOf(t testing.TB, all []analyze.Collectives) *Report {
	t.Helper()
	b := folder(t)
	for i := range all {
		leave(t, b, place(i, len(all)), document.Program, programOf(all[i]))
	}
	return merged(t, b, Options{})
}

// TestPlantedStraggler: a slow rank is named, and its cost is no less than what removing
// it gains, and at most 1.35 times that.
func TestPlantedStraggler(t *testing.T) {
	for name, plant := range map[string]func(*tracetest.Job){
		"slow kernels":      func(j *tracetest.Job) { j.Slow = map[int]float64{5: 1.3} },
		"a little slow":     func(j *tracetest.Job) { j.Slow = map[int]float64{5: 1.08} },
		"late host":         func(j *tracetest.Job) { j.Late = map[int]int64{5: 3_000_000} },
		"two ranks":         func(j *tracetest.Job) { j.Ranks, j.Slow = 2, map[int]float64{1: 1.3} },
		"noisy":             func(j *tracetest.Job) { j.Noise, j.EndJitterNS, j.Slow = 0.1, 60_000, map[int]float64{5: 1.3} },
		"long all-reduces":  func(j *tracetest.Job) { j.ReduceNS, j.Slow = 2_000_000, map[int]float64{5: 1.3} },
		"one bucket":        func(j *tracetest.Job) { j.Buckets, j.Slow = 1, map[int]float64{5: 1.3} },
		"clocks apart":      func(j *tracetest.Job) { j.Offset, j.Slow = map[int]int64{5: 7e9, 2: -3e9}, map[int]float64{5: 1.3} },
		"nothing told":      func(j *tracetest.Job) { j.Silent, j.Slow = true, map[int]float64{5: 1.3} },
		"a hundred of them": func(j *tracetest.Job) { j.Ranks, j.Slow = 100, map[int]float64{77: 1.3} },
	} {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				t.Parallel()
				with := trainingJob(func(j *tracetest.Job) { j.Seed = seed; plant(j) })
				without := with
				without.Slow, without.Late = nil, nil
				slow, healthy := with.Run(), without.Run()
				r := jobOf(t, traced(t, slow, with.Ranks))
				want := 5
				for rank := range with.Slow {
					want = rank
				}
				if r.Verdict != Waited || r.ExitCode != 0 || len(r.Waiting.Stragglers) != 1 || !slices.Equal(r.Waiting.Stragglers[0].Ranks, []int{want}) {
					t.Fatalf("%s: %s, %+v", r.Verdict, r.Reason, r.Waiting)
				}
				s := r.Waiting.Stragglers[0]
				gain := slow.StepS - healthy.StepS
				if ratio := float64(s.CostS) / gain; !(ratio >= 1 && ratio <= 1.35) || s.GainS > s.MoreS {
					t.Errorf("cost %.3f times the gain of %.3g s: %+v", ratio, gain, s)
				}
				if s.LastIn < 0.7 || !strings.HasPrefix(s.Collective, "all-reduce") || s.WaitS <= 0 {
					t.Errorf("%+v", s)
				}
				cause := "all its kernels take"
				if with.Late != nil {
					cause = "waits for the host"
				}
				if !strings.Contains(s.Cause, cause) {
					t.Errorf("cause %q, want %q", s.Cause, cause)
				}
			})
		}
	}
}

// TestDifferentCollectives: a rank that asks for other collectives is named, with the
// first difference, and nothing is claimed of its group.
func TestDifferentCollectives(t *testing.T) {
	j := trainingJob(func(j *tracetest.Job) { j.Slow = map[int]float64{5: 1.3} })
	all := traced(t, j.Run(), j.Ranks)
	all[3].Bytes[5] *= 2
	r := jobOf(t, all)
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "in step 12 rank 0 asks for all-reduce of 8.00 MiB as number 2, rank 3 for all-reduce of 16.0 MiB") || len(r.Waiting.Stragglers) != 0 || r.Verdict != TooFew {
		t.Errorf("%s: %q %+v", r.Verdict, notes, r.Waiting)
	}
	// Steps that one rank does not have are left out of all.
	all = traced(t, j.Run(), j.Ranks)
	short := trainingJob(func(j *tracetest.Job) { j.Slow, j.Steps = map[int]float64{5: 1.3}, 6 })
	all[3] = traced(t, short.Run(), 8)[3]
	if r := jobOf(t, all); r.Waiting.Steps != 5 || len(r.Waiting.Stragglers) != 1 || !slices.Equal(r.Waiting.Stragglers[0].Ranks, []int{5}) {
		t.Errorf("%+v %q", r.Waiting, r.Notes)
	}
}

// TestProgramsOfRanks: a program that failed is named with its recording, and damaged
// columns are no more than a problem.
func TestProgramsOfRanks(t *testing.T) {
	j := trainingJob(nil)
	all := traced(t, j.Run(), j.Ranks)
	b := folder(t)
	for i := range all {
		p := programOf(all[i])
		switch i {
		case 2:
			p.ExitCode, p.Signal = 137, "killed"
		case 3:
			p.Traces[0].Step = p.Traces[0].Step[1:]
		case 4:
			p.Traces, p.Lacks = nil, "it recorded no trace"
		}
		leave(t, b, place(i, len(all)), document.Program, p)
	}
	r := merged(t, b, Options{})
	said := strings.Join(slices.Concat(r.Problems, r.Notes), "\n")
	for _, want := range []string{"rank 2: its program was ended by a signal (killed); its recording is in job/recording/x", "program/000003", "differ in length", "communication of rank 4: it recorded no trace"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in %s", want, said)
		}
	}
	if r.Verdict != Broken || !slices.Equal(r.Failed, []int{2, 3}) || r.Waiting.Ranks != 6 || len(r.Recordings) != 8 {
		t.Errorf("%s %v %+v", r.Verdict, r.Failed, r.Waiting)
	}
}

// TestOnlyObjects: files deeper than the objects, such as the ranks' traces, are no objects, whatever their name;
// neither are files with another name.
func TestOnlyObjects(t *testing.T) {
	b := folder(t)
	for rank := range 2 {
		leave(t, b, place(rank, 2), document.Run, runOf(0.01, nil))
	}
	for _, name := range []string{"recording/000000-0/trace-1-rank0.json.zst", "trace.json.zst", "traces/rank0.json.zst"} {
		if err := b.Put(t.Context(), name, []byte("no object")); err != nil {
			t.Fatal(err)
		}
	}
	if r := merged(t, b, Options{}); len(r.Problems) > 0 || r.Verdict != Even {
		t.Errorf("%s %q", r.Verdict, r.Problems)
	}
}

// TestTwoJobsInOneFolder: ranks of two jobs do not wait for each other, so nothing is claimed
// of them, however much longer one takes.
func TestTwoJobsInOneFolder(t *testing.T) {
	j := trainingJob(func(j *tracetest.Job) { j.Slow = map[int]float64{5: 1.3} })
	all := traced(t, j.Run(), j.Ranks)
	for _, jobs := range []int{1, 2} {
		b := folder(t)
		for i := range all {
			p := place(i, len(all))
			p.Job = fmt.Sprint("job ", i%jobs)
			leave(t, b, p, document.Program, programOf(all[i]))
		}
		r := merged(t, b, Options{})
		if jobs == 1 && (r.Verdict != Waited || len(r.Waiting.Stragglers) != 1) {
			t.Errorf("one job: %s, %s", r.Verdict, r.Reason)
		}
		if jobs == 2 && (r.Verdict != TooFew || len(r.Waiting.Stragglers) != 0 || !strings.Contains(r.Reason, "of 2 jobs")) {
			t.Errorf("two jobs: %s, %s", r.Verdict, r.Reason)
		}
	}
}

// hugeJob is an object of a rank with so many collectives: that of a small job, again and again.
func hugeJob(tb testing.TB, b bucket.Bucket, ranks, calls int) {
	j := trainingJob(func(j *tracetest.Job) {
		j.Ranks, j.Buckets, j.Layers, j.Steps, j.LayerNS = 16, 10, 10, calls/10+1, 20_000
	})
	all := traced(tb, j.Run(), j.Ranks)
	for rank := range ranks {
		c := all[rank%16]
		c.Rank = rank
		leave(tb, b, place(rank, ranks), document.Program, programOf(c))
	}
}

// BenchmarkMergePrograms merges 1,024 objects of 1,000 collectives each.
func BenchmarkMergePrograms(b *testing.B) {
	for _, calls := range []int{1000, 4000} {
		b.Run(fmt.Sprint(calls), func(b *testing.B) {
			f := folder(b)
			hugeJob(b, f, 1024, calls)
			b.ReportAllocs()
			for b.Loop() {
				if r := merged(b, f, Options{}); r.Waiting == nil || r.Waiting.Collectives != calls || r.Waiting.Unclaimed != "" {
					b.Fatalf("%s %+v", r.Reason, r.Waiting)
				}
			}
		})
	}
}
