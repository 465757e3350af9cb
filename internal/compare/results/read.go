package results

import (
	"io"
	"os"

	"github.com/gpuprof/gpuprof/internal/compare"
)

// The formats, as Read returns them.
const (
	FormatRun       = "gpuprof run"
	FormatAnalysis  = "gpuprof analysis"
	FormatGo        = "go-bench"
	FormatNVBench   = "nvbench"
	FormatGoogle    = "google-benchmark"
	FormatPytest    = "pytest-benchmark"
	FormatHyperfine = "hyperfine"
)

// OS opens files of this machine.
func OS(name string) (io.ReadCloser, error) { return os.Open(name) }

// Read reads a result file of any format that is known, by what it holds and
// not by its name, plain, gzip or zstd. open opens it and the sample files it
// names (OS does). A sweep gives a result a run; every other format one.
//
// A file that is not there is ErrUsage. One that is empty, cut, of a newer
// version, of no known format, or that holds a time which is no number, is
// ErrInput.
func Read(path string, open func(string) (io.ReadCloser, error)) ([]*compare.Result, string, error) {
	text, err := load(path, open)
	if err != nil {
		return nil, "", err
	}
	return Parse(text, path, open)
}

// Parse is Read of a text that is there already, such as the standard output
// of a command. name is for messages, and for finding sample files, which are
// looked for beside it.
func Parse(text []byte, name string, open func(string) (io.ReadCloser, error)) ([]*compare.Result, string, error) {
	c, err := sniff(text, name, open)
	if err != nil {
		return nil, "", err
	}
	switch {
	case c.parsed != nil:
		return []*compare.Result{c.parsed.result(name)}, c.format, nil
	case c.analysis != nil:
		r, err := FromAnalysis(c.analysis)
		if err != nil {
			return nil, "", err
		}
		r.Source = name
		return []*compare.Result{r}, c.format, nil
	}
	var out []*compare.Result
	for _, run := range c.runs {
		r, err := compare.FromRun(run)
		if err != nil {
			return nil, "", err
		}
		r.Source = name
		out = append(out, r)
	}
	return out, c.format, nil
}
