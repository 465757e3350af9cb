package main

import (
	"context"
	"errors"
	"os"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// openFirst opens the first file, to tell a memory snapshot from a trace. It is nil where
// that is a folder or cannot be opened, which reading it explains. A part is cut from
// plain files alone, so that a pipe stays as it is.
func (c *analyzeCmd) openFirst(a *app) (in *input, err error) {
	if c.Traces, err = withSnapshots(c.Traces, c.Compare); err != nil {
		return nil, err
	}
	info, err := os.Stat(c.Traces[0])
	if err != nil || info.IsDir() || c.cuts() && !info.Mode().IsRegular() {
		return nil, nil
	}
	if in, err = openInput(a.ctx, c.Traces[0]); err != nil {
		return nil, nil
	}
	return in, nil
}

// memoryOnly refuses what only memory snapshots have, for a trace.
func (c *analyzeCmd) memoryOnly() error {
	switch {
	case c.At != "":
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --at %s: %s is no memory snapshot, and only those have moments", c.At, c.Traces[0]).WithFix("give --steps or --window for a part of a trace")
	case len(c.WhatIf) > 0 || c.Limit != "":
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --what-if and --memory-limit: %s is no memory snapshot, and only those are replayed with other settings", c.Traces[0]).WithFix("record one with gpuprof run --memory")
	}
	return nil
}

// withSnapshots replaces folders that gpuprof run --memory wrote by the snapshots in them;
// of a comparison those that hold one.
func withSnapshots(paths []string, compared bool) ([]string, error) {
	var out []string
	for _, path := range paths {
		found := outside.Dir(path).Glob("snapshot-*.pickle")
		if len(found) == 0 || compared && len(found) > 1 {
			found = nil
			out = append(out, path)
		}
		for _, file := range found {
			if err := checkFound(file); err != nil {
				return nil, err
			}
		}
		out = append(out, found...)
	}
	return out, nil
}

// runMemory analyses memory snapshots, of which the first is open.
func (c *analyzeCmd) runMemory(a *app, first *input) error {
	formats := outputTable().memory
	if c.cuts() {
		return gpuprof.Errorf(gpuprof.ErrUsage, "cutting %s: it is a memory snapshot, and only traces can be cut", first.path).WithFix("leave --steps and --window out: the analysis shows each step")
	}
	outs, err := formats.outputs(c.Output, c.Force)
	if err == nil {
		err = checkPlot(c.Plot, outs)
	}
	if err != nil {
		return err
	}
	ins := []*input{first}
	for _, path := range c.Traces[1:] {
		ins = append(ins, &input{path: path})
	}
	o := memsnap.Options{Settings: c.WhatIf}
	if c.Limit != "" {
		o.Allowed = c.Limit.bytes()
	}
	var found *memsnap.Analysis
	if c.Compare {
		var old *memsnap.Analysis
		if old, err = analyzeMemory(a, ins[:1], o); err == nil {
			found, err = analyzeMemory(a, ins[1:], o)
		}
		if err == nil {
			found.Against(old)
		}
	} else {
		found, err = analyzeMemory(a, ins, o)
	}
	if err == nil && c.At != "" {
		err = found.Look(c.At)
	}
	if err != nil {
		return err
	}
	return errors.Join(formats.show(a, c.Format, found), formats.save(a, outs, found, c.Plot, c.Force))
}

// analyzeMemory reads snapshots and replays them. One that cannot be read ends the
// command, as with traces.
func analyzeMemory(a *app, ins []*input, o memsnap.Options) (*memsnap.Analysis, error) {
	var found *memsnap.Analysis
	memory := outside.TraceMemory()
	defer lean(memory)()
	err := unlessEnded(a.ctx, func() error {
		var all []*memsnap.Snapshot
		for _, in := range ins {
			s, err := readSnapshot(a.ctx, in, memory/int64(len(ins)))
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		var err error
		found, err = memsnap.Analyze(a.ctx, all, tool(), o)
		return err
	})
	return found, err
}

// readSnapshot reads a memory snapshot; one that is not open is opened and closed.
func readSnapshot(ctx context.Context, in *input, room int64) (*memsnap.Snapshot, error) {
	if in.file == nil {
		if err := in.open(ctx); err != nil {
			return nil, outside.Failed("reading memory snapshot "+in.path, err, "record one as docs/memory.md shows", "record it again")
		}
		defer in.Close()
	}
	if !in.memory {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading memory snapshot %s: it is none, and snapshots are analysed together with snapshots only", in.path).WithFix("give traces to a gpuprof analyze of their own")
	}
	s, err := memsnap.Read(ctx, in.reader(), in.path, room)
	if err != nil {
		return nil, err
	}
	s.Path, s.Opens = document.CleanText(shownPath(in.path)), document.CleanText(storedPath(in.path))
	return s, nil
}
