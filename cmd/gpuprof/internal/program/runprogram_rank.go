package program

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/launch"
	"github.com/gpuprof/gpuprof/internal/record"
)

// setUpRank reports whether this process is one rank of a job: a launcher set its rank, and -o names the folder or
// bucket of the job. It makes the folder for the rank's recording. Errors are reported before the program starts.
func (p *program) setUpRank() (bool, error) {
	at := slices.IndexFunc(p.Output, cli.IsRankFolder)
	if at < 0 {
		return false, nil
	}
	place, ok := launch.Find(os.Getenv)
	if !ok && !cli.IsBucket(p.Output[at]) {
		return false, nil // a single program with a folder that ends with a slash
	}
	sink, files, err := p.app.RankOutput(p.Output)
	if err != nil {
		reason, fix := gpuprof.FixOf(err)
		return true, gpuprof.Errorf(gpuprof.ErrUsage, "%s", reason).WithFix("the program was not started: %s", fix)
	}
	if len(files) > 0 {
		return true, gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: -o names the folder of the job, %s, too, and every rank would write that file", files[0], sink.Bucket).WithFix("the program was not started: leave that file out, since every rank has a report.html in its recording and gpuprof fleet writes one of the job")
	}
	p.sink = sink
	if cli.IsBucket(p.Output[at]) {
		p.dir, err = makeFresh(freshName(time.Now())) // traces stay on this machine
	} else {
		p.dir, err = rankDir(p.Output[at], place)
	}
	p.options.Dir = p.dir
	return true, err
}

// recordings is the subfolder of the job's folder that has the recordings of the ranks.
const recordings = "recording"

// rankDir makes the folder for one rank's recording, named by rank and restart of the job. If the name is used, it
// appends the next free number.
func rankDir(job string, p launch.Place) (string, error) {
	above := filepath.Join(job, recordings)
	if err := os.MkdirAll(above, 0o755); err != nil {
		return "", cannotMake(above, err)
	}
	return makeFresh(filepath.Join(above, fmt.Sprintf("%06d-%d", p.Rank, p.Attempt)))
}

// leaveObject stores the document of this rank. Outside of a job it does nothing.
func (p *program) leaveObject(r *record.Result) error {
	if p.sink == nil {
		return nil
	}
	stored := r.Stored(p.dir)
	o := fleet.Program{Head: document.NewHead(document.Program, p.app.Tool), Command: stored.Command, Started: stored.Started, WallS: stored.WallS,
		ExitCode: stored.ExitCode, Signal: stored.Signal, Stopped: stored.Stopped, Folder: document.CleanText(p.dir), Warnings: stored.Warnings, Traces: p.collectives}
	switch {
	case p.Memory:
		o.Lacks = "it recorded memory"
	case p.NoAnalyze:
		o.Lacks = "its traces were not analysed (--no-analyze)"
	case len(r.Traces) == 0:
		o.Lacks = "it recorded no trace"
	case p.collectives == nil:
		o.Lacks = "its traces could not be analysed"
	}
	text, err := json.Marshal(&o)
	if err != nil {
		return gpuprof.Errorf(nil, "encoding the object of this rank: %w", err).WithFix("this is a fault in gpuprof, please report it")
	}
	if err := p.sink.Leave(document.Program, text); err != nil {
		return fmt.Errorf("leaving the object of this rank: %w", err)
	}
	return nil
}
