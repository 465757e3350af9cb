package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/launch"
)

// FleetWords returns the terms for error messages about the folder or bucket of a job. give is the flag or argument
// that sets it.
func FleetWords(give string) bucket.Words { return bucket.Words{What: "folder of the job", Give: give} }

// RankSink stores the document of one rank of a job, this process, in the folder or bucket of the job.
type RankSink struct {
	App     *App
	Place   launch.Place
	Bucket  bucket.Bucket
	Started time.Time
}

// IsRankFolder reports whether an output is a folder or bucket for the documents of ranks.
func IsRankFolder(path string) bool { return strings.HasSuffix(path, "/") || IsBucket(path) }

// IsBucket reports whether an output names an S3 bucket.
func IsBucket(path string) bool { return strings.HasPrefix(path, "s3://") }

// RankOutput separates the values of -o into files, and the folder or bucket for this rank's document; sink is nil
// without one. It fails, before the measurement, if the launcher set no rank or the folder cannot be written.
func (a *App) RankOutput(outputs []string) (sink *RankSink, files []string, err error) {
	for _, path := range outputs {
		if !IsRankFolder(path) {
			files = append(files, path)
			continue
		}
		if sink != nil {
			return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: -o names two folders, %s and this one", path, sink.Bucket).WithFix("give one folder for the objects of all ranks")
		}
		place, ok := launch.Find(os.Getenv)
		if why := launch.Refused(os.Getenv); !ok && why != "" {
			return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing the object of this rank to %s: %s", path, document.CleanText(why)).WithFix("set GPUPROF_RANK from 0 and GPUPROF_WORLD to the number of ranks")
		}
		if !ok {
			return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing the object of this rank to %s: no launcher says which rank this process is", path).WithFix("start it with srun, torchrun, mpirun or as an Indexed Job, or set GPUPROF_RANK and GPUPROF_WORLD")
		}
		b, err := bucket.Open(path, FleetWords("with -o"), os.Getenv)
		if err == nil {
			err = fleet.Probe(a.Ctx, b, place.Rank)
		}
		if err != nil {
			return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "%w", err)
		}
		place.Node = NodeName()
		sink = &RankSink{a, place, b, time.Now()}
	}
	return sink, files, nil
}

// Leave stores payload, the document of this rank, even after an interrupt. It does nothing if the sink is nil.
func (s *RankSink) Leave(of gpuprof.DocumentKind, payload []byte) error {
	if s == nil {
		return nil
	}
	ctx, stop := NotifyInterrupt(context.WithoutCancel(s.App.Ctx))
	defer stop()
	name, err := fleet.New(s.Place, of, s.Started, s.App.Tool, payload).Write(ctx, s.Bucket)
	if err == nil {
		s.App.Note("wrote %s of %s", name, s.Bucket)
	}
	return err
}

// NodeName returns this machine's name for reports.
func NodeName() string {
	host, _ := os.Hostname() // without a name, nodes are not grouped
	return document.CleanText(launch.Node(os.Getenv, host))
}
