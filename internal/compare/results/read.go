package results

import (
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// The format names that Read returns.
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

// OS reads a regular file of this machine.
func OS(name string) ([]byte, error) { return outside.ReadFound(name) }

// Read reads a result file of any known format, plain, gzip or zstd, recognized by content. The function read reads
// the file and the sample files that it names; OS is the usual one. A sweep gives one result per run, every other
// format one result.
//
// ErrUsage for a missing file; ErrInput for a file that is empty, truncated, too large, of a newer version or of an
// unknown format, and for a figure that is not a number.
func Read(path string, read func(string) ([]byte, error)) ([]*compare.Result, string, error) {
	text, err := read(path)
	if err != nil {
		return nil, "", Failed(path, err)
	}
	return Parse(text, path, read)
}

// Failed wraps the error of reading a result file, with its fix.
func Failed(path string, err error) error {
	return outside.Failed("reading results "+path, err, "give a file that gpuprof run or a benchmark program wrote", "the compressed file is damaged: write it again")
}

// Parse parses a text in memory. name appears in messages; the sample files that the text names are read from name's
// folder or a folder below it. It returns the results and the name of the format.
func Parse(text []byte, name string, read func(string) ([]byte, error)) ([]*compare.Result, string, error) {
	out, format, err := sniff(text, name, read)
	if err != nil {
		return nil, "", err
	}
	for _, r := range out {
		if err := checkFinite(r); err != nil {
			return nil, "", gpuprof.Errorf(gpuprof.ErrInput, "reading results %s (%s): %w", name, format, err).WithFix("measure it again")
		}
		cleanResult(r)
	}
	return out, format, nil
}

// cleanResult cleans every text of a result for output. If two names become equal, it appends an apostrophe to one.
func cleanResult(r *compare.Result) {
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

// checkFinite returns an error for the first figure that is not finite, or is a time below 0, so that no verdict omits
// it silently.
func checkFinite(r *compare.Result) error {
	for _, m := range r.Metrics {
		for k, run := range m.Runs {
			for i, v := range run {
				switch {
				case !gpuprof.IsFinite(v):
					return fmt.Errorf("%s is null, NaN or infinite (sample %d of run %d), and has to be a number", m.Name, i+1, k+1)
				case v < 0 && m.Unit == "s":
					return fmt.Errorf("%s is %g s (sample %d of run %d), and a time is not below 0", m.Name, v, i+1, k+1)
				}
			}
		}
	}
	return nil
}
