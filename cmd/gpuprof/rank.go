package main

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

// fleetWords are how errors speak of the folder or bucket of a job.
func fleetWords(give string) bucket.Words { return bucket.Words{What: "folder of the job", Give: give} }

// rankSink is where this process of a job leaves its object.
type rankSink struct {
	app     *app
	place   launch.Place
	bucket  bucket.Bucket
	started time.Time
}

// isRankFolder reports whether an output is for the object of a rank.
func isRankFolder(path string) bool { return strings.HasSuffix(path, "/") || isBucket(path) }

func isBucket(path string) bool { return strings.HasPrefix(path, "s3://") }

// rankOutput takes the folder or bucket for the object of this rank out of the values
// of -o; nil where there is none. Errors come before anything is measured: the launcher
// told no rank, or nothing can be written there.
func (a *app) rankOutput(outputs []string) (sink *rankSink, files []string, err error) {
	for _, path := range outputs {
		if !isRankFolder(path) {
			files = append(files, path)
			continue
		}
		if sink != nil {
			return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: -o names two folders, %s and this one", path, sink.bucket).WithFix("give one folder for the objects of all ranks")
		}
		place, ok := launch.Find(os.Getenv)
		if why := launch.Refused(os.Getenv); !ok && why != "" {
			return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing the object of this rank to %s: %s", path, document.CleanText(why)).WithFix("set GPUPROF_RANK from 0 and GPUPROF_WORLD to the number of ranks")
		}
		if !ok {
			return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "writing the object of this rank to %s: no launcher says which rank this process is", path).WithFix("start it with srun, torchrun, mpirun or as an Indexed Job, or set GPUPROF_RANK and GPUPROF_WORLD")
		}
		b, err := bucket.Open(path, fleetWords("with -o"), os.Getenv)
		if err == nil {
			err = fleet.Probe(a.ctx, b, place.Rank)
		}
		if err != nil {
			return nil, nil, gpuprof.Errorf(gpuprof.ErrUsage, "%w", err)
		}
		place.Node = nodeName()
		sink = &rankSink{a, place, b, time.Now()}
	}
	return sink, files, nil
}

// leave writes the object of this rank; it does nothing without a sink. What was
// measured before an interrupt is left too.
func (s *rankSink) leave(of gpuprof.DocumentKind, payload []byte) error {
	if s == nil {
		return nil
	}
	ctx, stop := notifyInterrupt(context.WithoutCancel(s.app.ctx))
	defer stop()
	name, err := fleet.New(s.place, of, s.started, s.app.tool, payload).Write(ctx, s.bucket)
	if err == nil {
		s.app.note("wrote %s of %s", name, s.bucket)
	}
	return err
}

// nodeName is this machine's name, wherever gpuprof names a node.
func nodeName() string {
	host, _ := os.Hostname() // without a name a node stands alone
	return document.CleanText(launch.Node(os.Getenv, host))
}
