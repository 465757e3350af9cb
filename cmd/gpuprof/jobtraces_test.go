package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuprof/gpuprof/internal/testkit/tracetest"
)

// jobtraces runs `jobtraces FOLDER RANKS SLOW`: the traces of the ranks of a job, one of
// them with kernels that take 1.4 times as long.
func jobtraces(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: jobtraces FOLDER RANKS SLOW")
	}
	ranks, err := strconv.Atoi(args[1])
	ts.Check(err)
	slow, err := strconv.Atoi(args[2])
	ts.Check(err)
	job := slowJob(ranks, slow).Run()
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o755))
	for rank := range ranks {
		f, err := os.Create(filepath.Join(ts.MkAbs(args[0]), fmt.Sprint(rank, ".json")))
		ts.Check(err)
		ts.Check(job.Write(f, rank))
		ts.Check(f.Close())
	}
}

// slowJob is a job of which one rank has kernels that take 1.4 times as long.
func slowJob(ranks, slow int) tracetest.Job {
	return tracetest.Job{Ranks: ranks, Steps: 6, Layers: 8, Buckets: 3, Seed: 7, LayerNS: 300_000, ReduceNS: 500_000, Noise: 0.02, EndJitterNS: 8_000, Slow: map[int]float64{slow: 1.4}}
}
