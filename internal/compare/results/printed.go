package results

import (
	"bytes"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// printed lists known programs' human-readable outputs by pattern, with the option that writes a result file instead.
var printed = []struct {
	line     *lazyregexp.Regexp
	is, give string
}{
	{lazyregexp.New(`(?m)^Benchmark #?\d+: |^command,mean,stddev,|^\| Command \| Mean \[`), "hyperfine shows", "hyperfine --export-json FILE"},
	{lazyregexp.New(`(?m)^Benchmark +Time +CPU +Iterations|^name,iterations,real_time,cpu_time,`), "Google Benchmark shows", "--benchmark_out=FILE --benchmark_out_format=json"},
	{lazyregexp.New(`(?m)^\|.* Samples \| *CPU Time *\|`), "NVBench shows", "--jsonbin FILE"},
	{lazyregexp.New(`(?m)^-+ benchmark.*: \d+ tests -+\r?$`), "pytest-benchmark shows", "--benchmark-json FILE"},
	{lazyregexp.New(`(?m)^# JMH version: |^Benchmark +(\([\w.]+\) +)*Mode +Cnt +Score`), "JMH shows", "-rf json -rff FILE"},
	{lazyregexp.New(`(?m)^=+ Serving Benchmark Result =+\r?$`), "vllm bench serve shows", "--save-result --result-filename FILE"},
	// A program may print other text before its JSON.
	{lazyregexp.New(`(?m)^[\[{]\s*$|^\{"`), "a program printed before its JSON", "the JSON alone, best in a file"},
}

// foreignText returns an error with the fix for a recognized text that is no result; nil for other texts.
func foreignText(text []byte, name string) error {
	for _, p := range printed {
		if p.line.Match(text) {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: it is what %s", name, p.is).WithFix("give %s (gate: name the file with --result)", p.give)
		}
	}
	return nil
}

// members matches members of the known JSON documents, even in a document that is broken or follows other text.
var members = lazyregexp.New(`"(schema_version|benchmarks|results)"\s*:`)

// Known reports whether a text is a result of a known program, complete or broken, or that program's human-readable
// output. Output of a training program, even a JSON line per step, is neither.
func Known(text []byte) bool {
	text = stripScript(text)
	body := bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), " \t\r\n")
	if len(body) == 0 {
		return false
	}
	for _, p := range printed[:len(printed)-1] { // the last pattern matches any JSON after other text
		if p.line.Match(text) {
			return true
		}
	}
	return testEvents(body) != nil || hasBenchLine(text) || members.Match(text) || hasPlainLine(text) || isPlainText(body) || isForeign(body)
}

// isForeign reports whether a text is JSON whose documents all have the same known format.
func isForeign(body []byte) bool {
	if body[0] != '{' && body[0] != '[' {
		return false
	}
	docs, err := splitDocuments(document.NullNumbers(body))
	return err == nil && kindOf(docs) != ""
}
