package tuneprogram

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/internal/tuneprogram"
	"github.com/gpuprof/gpuprof/workloads/guides"
)

// guideClaims returns the claims of tuning guides that can be tested on a user's own program.
func guideClaims() (out []tuneprogram.Claim) {
	for _, k := range guides.Claims() {
		if len(k.Program) > 0 {
			out = append(out, tuneprogram.Claim{Promise: tune.Promise{ID: k.ID, Guide: k.Guide, Claim: k.Claim,
				Figure: k.Figure, Speedup: k.Speedup, Placebo: k.Placebo}, Settings: k.Program, Reversed: k.Reversed})
		}
	}
	return out
}

// recordFindings records a few steps of the unchanged program, as gpuprof run does, and returns the findings. A
// recording that takes longer than limit is stopped, with an error.
func (t *tuning) recordFindings(ctx context.Context, limit time.Duration) ([]tuneprogram.Finding, error) {
	exe, err := cli.OwnProgram()
	if err != nil {
		return nil, err
	}
	scratch, err := child.NewScratch("tune")
	if err != nil {
		return nil, gpuprof.Errorf(nil, "making a folder for a recording: %w", err).WithFix("check TMPDIR")
	}
	defer scratch.Close()
	file := filepath.Join(scratch.Dir, "analysis.json")
	cmd := child.Command{Name: os.Args[0], Limit: limit, Args: append([]string{exe, "run", "--quiet", "--stop-after", "-o",
		filepath.Join(scratch.Dir, "recording"), "-o", file, "--"}, t.run.CommandLine()...)}
	if t.run.Folder != nil {
		cmd.Dir = t.run.Folder.Dir
		if err := t.run.Folder.Restore(); err != nil {
			return nil, err
		}
	}
	if _, words, err := cmd.Run(ctx); err != nil {
		return nil, cli.ProcessError(err, words)
	}
	text, err := outside.ReadFound(file)
	if err != nil {
		return nil, err
	}
	var recorded struct{ Findings []gpuprof.Finding }
	if err := json.Unmarshal(text, &recorded); err != nil {
		return nil, err
	}
	out := []tuneprogram.Finding{}
	for _, f := range recorded.Findings {
		out = append(out, tuneprogram.Finding{Rule: f.Rule, Share: f.Share})
	}
	return out, nil
}
