package cli

import (
	"errors"
	"io/fs"
	"os"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// gpuprof run without -o writes RunFile. It first renames an existing RunFile to PreviousRunFile.
const (
	RunFile         = "run.json"
	PreviousRunFile = "run.previous.json"
)

// KeepPrevious renames the earlier run.json to run.previous.json.
func KeepPrevious(a *App) error {
	switch err := os.Rename(RunFile, PreviousRunFile); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return gpuprof.Unwritable("keeping "+RunFile+" as "+PreviousRunFile, err, "name another file with -o", "name another file with -o")
	}
	a.Note("kept the run before as %s; gpuprof compare, without files, shows what changed since", PreviousRunFile)
	return nil
}

// PreviousFree refuses to measure if KeepPrevious would replace a run.previous.json of another program.
func PreviousFree(force bool) error {
	if _, err := os.Lstat(RunFile); err != nil {
		return nil
	}
	return runfile.Check(PreviousRunFile, force)
}

// Unclobbered refuses outputs whose files exist (--no-clobber).
func Unclobbered(outs []Output) error {
	for _, o := range outs {
		if _, err := os.Lstat(o.Path); err == nil {
			return gpuprof.Errorf(gpuprof.ErrUsage, "writing %s: there is such a file, and --no-clobber keeps it", o.Path).WithFix("name another file with -o")
		}
	}
	return nil
}

// TwoRunFiles returns the two files to compare: the given ones, or the previous and the latest run in this folder.
func TwoRunFiles(old, now string) (string, string, error) {
	if old != "" && now != "" {
		return old, now, nil
	}
	if old != "" {
		return "", "", gpuprof.Errorf(gpuprof.ErrUsage, "comparing %s: there is no second file", old).WithFix("give two: gpuprof compare OLD NEW")
	}
	for _, name := range []string{PreviousRunFile, RunFile} {
		if _, err := os.Stat(name); err != nil {
			return "", "", gpuprof.Errorf(gpuprof.ErrUsage, "comparing the runs of this folder: there is no %s", name).WithFix("give two files, or measure twice here with gpuprof run WORKLOAD")
		}
	}
	return PreviousRunFile, RunFile, nil
}
