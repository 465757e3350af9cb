package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuprof/gpuprof"
)

// fresh measures one setting by running this program again, as run --runs does.
func (t *tuning) fresh(ctx context.Context, set gpuprof.Settings, limit time.Duration) (*gpuprof.Run, error) {
	dir, err := os.MkdirTemp("", "gpuprof-tune-")
	if err != nil {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "making a folder for a process's result: %w; check TMPDIR", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary folder harms nobody
	all := gpuprof.Settings{}
	for _, s := range []gpuprof.Settings{t.opts.Set, set} {
		for k, v := range s {
			all[k] = v
		}
	}
	a := *t.app
	a.ctx = ctx
	s := &session{
		runCmd: &runCmd{target: target{Seed: 1}, Mode: string(gpuprof.Steady), MinTime: limit / 5, MaxTime: limit, Warmup: "auto", Runs: 1},
		app:    &a,
		aim:    &aim{workload: t.opts.Workload, preset: t.opts.Preset, device: t.device, set: []gpuprof.Settings{all}},
	}
	return s.oneProcess(0, filepath.Join(dir, "run.json"))
}

// freshOf is fresh for any workload and preset.
func (t *tuning) freshOf(ctx context.Context, w gpuprof.Workload, preset string, set gpuprof.Settings, limit time.Duration) (*gpuprof.Run, error) {
	u := *t
	u.opts.Workload, u.opts.Preset, u.opts.Set = w, preset, nil
	return u.fresh(ctx, set, limit)
}
