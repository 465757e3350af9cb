package input

import (
	"os"
	"path/filepath"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/compare/results"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// analysisFile is the name of the analysis in the folder that gpuprof run -- CMD writes.
const analysisFile = "analysis.json"

// IsRecording reports whether a path is a folder of gpuprof run -- CMD.
func IsRecording(path string) bool {
	if !cli.IsDir(path) {
		return false
	}
	_, err := os.Stat(filepath.Join(path, record.ResultFile))
	return err == nil
}

// SnapshotsIn returns the memory snapshots in a folder of gpuprof run --memory; ErrUsage if one is no regular file.
func SnapshotsIn(path string) ([]string, error) {
	found := outside.Dir(path).Glob("snapshot-*.pickle")
	for _, file := range found {
		if err := CheckFound(file); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// AnalysisIn returns the path of the analysis in the folder of a recording. If there is none, the error is ErrUsage and
// names the command that makes one.
func AnalysisIn(dir string) (string, error) {
	path := filepath.Join(dir, analysisFile)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if !IsRecording(dir) {
		return "", gpuprof.Errorf(gpuprof.ErrUsage, "reading %s: it is a directory without %s", dir, analysisFile).
			WithFix("give a file, or the folder that gpuprof run -- CMD left")
	}
	if _, err := TracesIn(dir); err != nil {
		return "", err
	}
	return "", gpuprof.Errorf(gpuprof.ErrUsage, "reading %s: the recording was not analyzed", dir).
		WithFix("gpuprof analyze %s analyzes it", gpuprof.ShellWord(dir))
}

// openFolder finds the traces or memory snapshots in a folder. Several are the ranks of one job.
func (in *File) openFolder() (err error) {
	in.IsTrace = true
	if in.folder, err = SnapshotsIn(in.Path); err != nil {
		return err
	}
	if in.Memory = len(in.folder) > 0; !in.Memory {
		in.folder, err = TracesIn(in.Path)
	}
	return err
}

func (in *File) folderResult(a *cli.App) ([]*compare.Result, error) {
	if in.Memory {
		return memoryResult(AnalyzeMemoryFiles(a, in.folder))
	}
	return in.traceResult(AnalyzeTraces(a, in.folder, AnalyzeOptions{}))
}

func memoryResult(found *memsnap.Analysis, err error) ([]*compare.Result, error) {
	if err != nil {
		return nil, err
	}
	return []*compare.Result{results.FromMemory(found)}, nil
}

func (in *File) traceResult(analysis *analyze.Analysis, indexes []*analyze.Index, err error) ([]*compare.Result, error) {
	if err != nil {
		return nil, err
	}
	r, err := results.FromIndexes(indexes, analysis)
	if err != nil {
		return nil, err
	}
	r.Source = document.CleanText(cli.ShownPath(in.Path))
	return []*compare.Result{r}, nil
}

// AnalyzeMemoryFiles opens memory snapshots and analyzes them together.
func AnalyzeMemoryFiles(a *cli.App, paths []string) (*memsnap.Analysis, error) {
	var ins []*File
	defer func() {
		for _, in := range ins {
			_ = in.Close()
		}
	}()
	for _, path := range paths {
		in, err := OpenFile(a.Ctx, path)
		if err != nil {
			return nil, outside.Failed("reading memory snapshot "+path, err, "gpuprof run --memory -- CMD records one", "record it again")
		}
		ins = append(ins, in)
	}
	return AnalyzeMemory(a, ins, memsnap.Options{})
}

// AnalyzeRecordings analyzes files that are all memory snapshots or all traces. It returns memory for snapshots, and
// traces otherwise.
func AnalyzeRecordings(a *cli.App, paths []string) (memory *memsnap.Analysis, traces []*analyze.Index, err error) {
	if !cli.IsDir(paths[0]) {
		in, err := OpenFile(a.Ctx, paths[0])
		if err != nil {
			return nil, nil, outside.Failed("reading "+paths[0], err, "give an existing file", "record it again")
		}
		if err := in.Close(); err != nil {
			return nil, nil, err
		}
		if in.Memory {
			memory, err = AnalyzeMemoryFiles(a, paths)
			return memory, nil, err
		}
	}
	_, traces, err = AnalyzeTraces(a, paths, AnalyzeOptions{})
	return nil, traces, err
}
