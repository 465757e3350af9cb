package analyze

import (
	"cmp"
	"errors"
	"os"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/input"
	"github.com/gpuprof/gpuprof/internal/memsnap"
)

// openFirst opens the first file, to distinguish a memory snapshot from a trace. It returns nil for a folder, and for a
// file that cannot be opened, whose error is reported later. It also returns nil if a part is to be cut out of a pipe,
// because a pipe can be read only once.
func (c *Cmd) openFirst(a *cli.App) (in *input.File, err error) {
	if c.Traces, err = addSnapshots(c.Traces, c.Compare); err != nil {
		return nil, err
	}
	info, err := os.Stat(c.Traces[0])
	if err != nil || info.IsDir() || c.asksForPart() && !info.Mode().IsRegular() {
		return nil, nil
	}
	if in, err = input.OpenFile(a.Ctx, c.Traces[0]); err != nil {
		return nil, nil
	}
	return in, nil
}

// refuseMemoryFlags refuses the flags for memory snapshots; the input is a trace.
func (c *Cmd) refuseMemoryFlags() error {
	switch {
	case c.At != "":
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --at %s: %s is no memory snapshot, and only those have moments", c.At, c.Traces[0]).WithFix("give --steps or --window for a part of a trace")
	case len(c.WhatIf) > 0 || c.Limit != "":
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --what-if and --memory-limit: %s is no memory snapshot, and only those are replayed with other settings", c.Traces[0]).WithFix("record one with gpuprof run --memory")
	}
	return nil
}

// addSnapshots replaces folders of gpuprof run --memory by the snapshots in them. For a comparison, it leaves a folder
// with several snapshots as one path.
func addSnapshots(paths []string, compared bool) ([]string, error) {
	var out []string
	for _, path := range paths {
		found, err := input.SnapshotsIn(path)
		if len(found) == 0 || compared && len(found) > 1 {
			found = nil
			out = append(out, path)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// runMemory analyses memory snapshots; first is the first one, which is open.
func (c *Cmd) runMemory(a *cli.App, first *input.File) error {
	formats := a.Documents.Memory
	if c.asksForPart() {
		return gpuprof.Errorf(gpuprof.ErrUsage, "cutting %s: it is a memory snapshot, and only traces can be cut", first.Path).WithFix("leave --steps and --window out: the analysis shows each step")
	}
	if c.Peaks != "" {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --peaks: %s is a memory snapshot, and only traces have matrix products", first.Path).WithFix("leave --peaks out")
	}
	outs, err := formats.Outputs(c.Output, c.Force)
	if err == nil {
		err = cli.CheckPlot(a, c.Plot, outs)
	}
	server, wrong := formats.Server(c.Pushed)
	if err := cmp.Or(err, wrong); err != nil {
		return err
	}
	ins := []*input.File{first}
	for _, path := range c.Traces[1:] {
		ins = append(ins, &input.File{Path: path})
	}
	o := memsnap.Options{Settings: c.WhatIf}
	if c.Limit != "" {
		o.Allowed = c.Limit.Bytes()
	}
	var found *memsnap.Analysis
	if c.Compare {
		var old *memsnap.Analysis
		if old, err = input.AnalyzeMemory(a, ins[:1], o); err == nil {
			found, err = input.AnalyzeMemory(a, ins[1:], o)
		}
		if err == nil {
			found.Against(old)
		}
	} else {
		found, err = input.AnalyzeMemory(a, ins, o)
	}
	if err == nil && c.At != "" {
		err = found.Look(c.At)
	}
	if err != nil {
		return err
	}
	return errors.Join(formats.Show(a, c.Format, found), formats.Save(a, outs, found, c.Plot, c.Force), formats.SendTo(a, server, found))
}
