package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/history"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Shown is the full command for "gpuprof FILE...", a command line without a subcommand.
type Shown struct {
	What string   // kind of the first file, with an article
	Args []string // a subcommand, its flags and the files
}

// Kinds of files and folders, with an article, for messages.
const (
	aTrace     = "a recording"
	aSnapshot  = "a memory snapshot"
	aFolder    = "the folder of a recording"
	aProfile   = "a profile"
	aBenchmark = "a result of a benchmark"
	aBaseline  = "a stored baseline"
	aStore     = "a store of sessions"
	aJob       = "the folder of a job"
	baselines  = "a folder of baselines"
)

// taken lists the kinds of files that gpuprof FILE accepts, for errors.
const taken = "gpuprof FILE takes recordings, memory snapshots, results, the JSON of gpuprof, " +
	"and the folder of a recording, a job or a history"

// Show chooses the command that shows the files, by the kind of the first file. The error is ErrUsage for files of
// different kinds, and ErrInput for an unknown kind.
func Show(ctx context.Context, paths []string) (Shown, error) {
	var what []string
	for _, path := range paths {
		kind, err := kindOf(ctx, path)
		if err != nil {
			return Shown{}, err
		}
		what = append(what, kind)
	}
	if i := slices.IndexFunc(what, func(kind string) bool { return !areComparable(what[0], kind) }); i > 0 {
		both := fmt.Sprintf("the first is %s and the second %s", what[0], what[i])
		return Shown{}, gpuprof.Errorf(gpuprof.ErrUsage, "showing %s and %s: %s", paths[0], paths[i], both).
			WithFix("give them one after the other")
	}
	args, err := verbFor(what[0], paths)
	return Shown{What: what[0], Args: args}, err
}

// areComparable reports whether one command takes files of both kinds. Results can be compared whatever program wrote
// them.
func areComparable(a, b string) bool {
	isResult := func(kind string) bool {
		return slices.Contains([]string{document.A(document.Run), document.A(document.Analysis), aBenchmark, aBaseline}, kind)
	}
	return a == b || isResult(a) && isResult(b)
}

// verbFor returns the arguments of the command for files of a kind.
func verbFor(kind string, paths []string) ([]string, error) {
	with := func(words ...string) ([]string, error) { return append(words, paths...), nil }
	several := len(paths) > 1
	switch kind {
	case aFolder:
		if len(paths) == 2 {
			return with("analyze", "--compare")
		}
		return with("analyze")
	case aTrace, aSnapshot:
		return with("analyze")
	case aJob:
		return with("fleet")
	case document.A(document.Sweep):
		return with("report")
	case document.A(document.Run):
		if len(paths) != 2 {
			return with("report")
		}
		return with("compare")
	case document.A(document.Analysis), aBenchmark, aBaseline:
		if len(paths) == 2 {
			return with("compare")
		}
	}
	if several {
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "showing %d files: %s is %s, and only one is shown at a time", len(paths), paths[0], kind).
			WithFix("give it alone")
	}
	switch kind {
	case aProfile:
		return with("pprof")
	case aStore:
		return with("history", "show", "--store")
	case baselines:
		return with("history", "baseline", "list", "--dir")
	case aBenchmark, aBaseline:
		return nil, gpuprof.Errorf(gpuprof.ErrUsage, "showing %s: it is %s, which is compared with another", paths[0], kind).
			WithFix("gpuprof compare %s NEW compares two", gpuprof.ShellWord(paths[0]))
	}
	return with("report")
}

// kindOf returns the kind of a file or folder, with an article ("a recording").
func kindOf(ctx context.Context, path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case cli.IsBucket(path):
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "showing %s: a bucket may hold a job or a history", path).
			WithFix("gpuprof fleet %[1]s shows a job, gpuprof history --store %[1]s a history", path)
	case errors.Is(err, fs.ErrNotExist):
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "showing %s: there is no such file, and no verb of this name", path).
			WithFix("give an existing file, or see gpuprof --help for the verbs")
	case err != nil:
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "showing %s: %w", path, errors.Unwrap(err)).
			WithFix("give a readable file")
	case info.IsDir():
		return kindOfFolder(ctx, path)
	case !info.Mode().IsRegular():
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "showing %s: it is no regular file, and its kind cannot be told without reading it", path).
			WithFix("name the verb, such as gpuprof analyze %s", gpuprof.ShellWord(path))
	case strings.HasSuffix(path, ".pb.gz") || strings.HasSuffix(path, ".pprof"):
		return aProfile, nil
	}
	in, err := OpenFile(ctx, path)
	if err != nil {
		return "", outside.Failed("showing "+path, err, "give an existing file", "write it again")
	}
	defer in.Close()
	switch {
	case in.Memory:
		return aSnapshot, nil
	case in.IsTrace:
		return aTrace, nil
	}
	return in.kindOfDocument()
}

func (in *File) kindOfDocument() (string, error) {
	foreign := in.foreignError() // look at the beginning of the file before it is read
	text, err := in.readDocument()
	if err != nil {
		return "", outside.Failed("showing "+in.Path, err, "give an existing file", "write it again")
	}
	shows := []gpuprof.DocumentKind{
		document.Run, document.Sweep, document.Comparison, document.Gate, document.Tune, document.Claims, document.Bisect, document.History,
		document.Memory, document.Analysis, document.TraceComparison, document.Health, document.Fleet, document.Check,
		document.Diagnosis,
	}
	head := document.HeadOf(text)
	switch {
	case slices.Contains(shows, head.Kind):
		return document.A(head.Kind), nil
	case head.Kind == document.Baseline:
		return aBaseline, nil
	case head.Kind != "" && head.Version != "" && document.A(head.Kind) != "":
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "showing %s: %s", in.Path, document.Is(head.Kind)).
			WithFix("%s", taken)
	}
	if _, format, err := results.Parse(text, in.Path, results.OS); err == nil && format != "" {
		return aBenchmark, nil
	}
	if foreign != nil {
		return "", foreign
	}
	return "", gpuprof.Errorf(gpuprof.ErrInput, "showing %s: it was taken for %s, which gpuprof does not read", in.Path, takenFor(text)).
		WithFix("%s", taken)
}

// takenFor guesses the kind of an unknown file by its beginning, with an article.
func takenFor(text []byte) string {
	trimmed := bytes.TrimSpace(text)
	switch {
	case len(trimmed) == 0:
		return "an empty file"
	case trimmed[0] == '{' || trimmed[0] == '[':
		return "JSON of another program"
	case utf8.Valid(text[:min(len(text), headText)&^3]) && !bytes.ContainsRune(text, 0):
		return "text"
	}
	return "binary data"
}

// isJob reports whether a folder has the documents that the ranks of a job wrote.
func isJob(dir string) bool {
	return slices.ContainsFunc(outside.Dir(dir).Glob("*/*.json.zst"), func(file string) bool {
		return fleet.IsObject(filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file))
	})
}

func kindOfFolder(ctx context.Context, dir string) (string, error) {
	snapshots, err := SnapshotsIn(dir)
	switch {
	case err != nil:
		return "", err
	case IsRecording(dir) || len(snapshots) > 0:
		return aFolder, nil
	case history.IsStore(dir):
		return aStore, nil
	case isJob(dir):
		return aJob, nil
	}
	if all, _ := baseline.Open(dir).List(); len(all) > 0 {
		return baselines, nil
	}
	files, err := TracesIn(dir)
	if err == nil {
		var kind string
		if kind, err = kindOf(ctx, files[0]); kind == aTrace {
			return aFolder, nil
		}
	}
	if err != nil && errors.Is(err, fs.ErrPermission) {
		return "", err
	}
	hint := taken
	if _, err := os.Stat(filepath.Join(dir, cli.RunFile)); err == nil {
		hint = "gpuprof report " + gpuprof.ShellWord(filepath.Join(dir, cli.RunFile)) + " shows the run in it; " + taken
	}
	return "", gpuprof.Errorf(gpuprof.ErrUsage, "showing %s: it is a directory that holds no recording, no job and no history", dir).
		WithFix("%s", hint)
}
