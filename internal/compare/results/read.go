package results

import (
	"fmt"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
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
	FormatBMF       = "bencher"
	FormatGitHub    = "github-action-benchmark"
	FormatASV       = "asv"
	FormatJMH       = "jmh"
	FormatVLLM      = "vllm-bench"
	FormatAIPerf    = "aiperf"
	FormatGuideLLM  = "guidellm"
	FormatPlain     = "plain figures" // lines "name value unit", or a JSON object of numbers
)

// OS reads regular files of this machine.
func OS(name string) ([]byte, error) { return outside.ReadFound(name) }

// Read reads a result file of any format that is known, by what it holds and
// not by its name, plain, gzip or zstd. read reads it and the sample files it
// names (OS does). A sweep gives a result a run; every other format one.
//
// A file that is not there is ErrUsage. One that is empty, cut, of a newer
// version, of no known format, too large to be read, or that holds a figure which is
// no number, is ErrInput, and names it.
func Read(path string, read func(string) ([]byte, error)) ([]*compare.Result, string, error) {
	text, err := read(path)
	if err != nil {
		return nil, "", Failed(path, err)
	}
	return Parse(text, path, read)
}

// Failed words why the text of a result file could not be read.
func Failed(path string, err error) error {
	return outside.Failed("reading results "+path, err, "give a file that gpuprof run or a benchmark program wrote", "the compressed file is damaged: write it again")
}

// Parse is Read of a text that is there already, such as the standard output
// of a command. name is for messages, and for finding sample files, which are
// looked for beside it.
func Parse(text []byte, name string, read func(string) ([]byte, error)) ([]*compare.Result, string, error) {
	c, err := sniff(text, name, read)
	if err != nil {
		return nil, "", err
	}
	out, err := c.results(name)
	if err != nil {
		return nil, "", err
	}
	for _, r := range out {
		if err := finite(r); err != nil {
			return nil, "", gpuprof.Errorf(gpuprof.ErrInput, "reading results %s (%s): %w", name, c.format, err).WithFix("measure it again")
		}
		clean(r)
	}
	return out, c.format, nil
}

func (c *content) results(name string) ([]*compare.Result, error) {
	switch {
	case c.parsed != nil:
		return []*compare.Result{c.parsed.result(name)}, nil
	case c.analysis != nil:
		r, err := FromAnalysis(c.analysis)
		if err != nil {
			return nil, err
		}
		r.Source = name
		return []*compare.Result{r}, nil
	}
	var out []*compare.Result
	for _, run := range c.runs {
		r, err := compare.FromRun(run)
		if err != nil {
			return nil, err
		}
		r.Source = name
		out = append(out, r)
	}
	return out, nil
}

// clean makes every text of a result fit to be shown, whatever format it came from.
// Metrics whose names become equal get a prime.
func clean(r *compare.Result) {
	document.CleanStrings(r)
	seen := map[string]bool{}
	for i := range r.Metrics {
		name := &r.Metrics[i].Name
		for seen[*name] {
			*name += "'"
		}
		seen[*name] = true
	}
}

// finite names the first figure that is no number, whatever format it came from:
// what cannot be compared must not be left out of a verdict unseen.
func finite(r *compare.Result) error {
	for _, m := range r.Metrics {
		for k, run := range m.Runs {
			for i, v := range run {
				switch {
				case math.IsNaN(v) || math.IsInf(v, 0):
					return fmt.Errorf("%s is null, NaN or infinite (sample %d of run %d), and has to be a number", m.Name, i+1, k+1)
				case v < 0 && m.Unit == "s":
					return fmt.Errorf("%s is %g s (sample %d of run %d), and a time is not below 0", m.Name, v, i+1, k+1)
				}
			}
		}
	}
	return nil
}
