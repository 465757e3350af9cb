package input

import (
	"context"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// AnalyzeMemory reads memory snapshots and replays their allocations. It fails if one of the files cannot be read.
func AnalyzeMemory(a *cli.App, ins []*File, o memsnap.Options) (*memsnap.Analysis, error) {
	var found *memsnap.Analysis
	memory := outside.TraceMemory()
	defer LimitHeap(memory)()
	err := UnlessEnded(a.Ctx, func() error {
		var all []*memsnap.Snapshot
		for _, in := range ins {
			s, err := readSnapshot(a.Ctx, in, memory/int64(len(ins)))
			if err != nil {
				return err
			}
			all = append(all, s)
		}
		var err error
		found, err = memsnap.Analyze(a.Ctx, all, a.Tool, o)
		return err
	})
	if err == nil {
		shortenMemory(found, fromHere())
	}
	return found, err
}

// readSnapshot reads a memory snapshot. It opens and closes a file that is not open. room limits the memory, in bytes.
func readSnapshot(ctx context.Context, in *File, room int64) (*memsnap.Snapshot, error) {
	if in.File == nil {
		if err := in.open(ctx); err != nil {
			return nil, outside.Failed("reading memory snapshot "+in.Path, err, "gpuprof run --memory -- CMD records one", "record it again")
		}
		defer in.Close()
	}
	if !in.Memory {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "reading memory snapshot %s: it is none, and snapshots are analysed together with snapshots only", in.Path).WithFix("give traces to a gpuprof analyze of their own")
	}
	s, err := memsnap.Read(ctx, in.Reader(), in.Path, room)
	if err != nil {
		return nil, err
	}
	s.Path, s.Opens = document.CleanText(cli.ShownPath(in.Path)), document.CleanText(cli.StoredPath(in.Path))
	return s, nil
}
