package results

import (
	"bytes"
	"regexp"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// printed are what the known programs print for people, or write as a table,
// told by one line of it, and how they are asked for a result.
var printed = []struct {
	line     *regexp.Regexp
	is, give string
}{
	{regexp.MustCompile(`(?m)^Benchmark #?\d+: |^command,mean,stddev,|^\| Command \| Mean \[`), "hyperfine shows", "hyperfine --export-json FILE"},
	{regexp.MustCompile(`(?m)^Benchmark +Time +CPU +Iterations|^name,iterations,real_time,cpu_time,`), "Google Benchmark shows", "--benchmark_out=FILE --benchmark_out_format=json"},
	{regexp.MustCompile(`(?m)^\|.* Samples \| *CPU Time *\|`), "NVBench shows", "--jsonbin FILE"},
	{regexp.MustCompile(`(?m)^-+ benchmark.*: \d+ tests -+\r?$`), "pytest-benchmark shows", "--benchmark-json FILE"},
	{regexp.MustCompile(`(?m)^# JMH version: |^Benchmark +(\([\w.]+\) +)*Mode +Cnt +Score`), "JMH shows", "-rf json -rff FILE"},
	{regexp.MustCompile(`(?m)^=+ Serving Benchmark Result =+\r?$`), "vllm bench serve shows", "--save-result --result-filename FILE"},
	// A program that prints its JSON may print other words before it.
	{regexp.MustCompile(`(?m)^[\[{]\s*$|^\{"`), "a program printed before its JSON", "the JSON alone, best in a file"},
}

// otherText says what a text is that is no result, and what to give instead;
// nil where that cannot be told.
func otherText(text []byte, name string) error {
	for _, p := range printed {
		if p.line.Match(text) {
			return gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: it is what %s", name, p.is).WithFix("give %s (gate: name the file with --result)", p.give)
		}
	}
	return nil
}

// members of the JSON documents that are known, for one that is broken or that
// other words stand before.
var members = regexp.MustCompile(`"(schema_version|benchmarks|results)"\s*:`)

// Known says whether a text is a result of a known program, whole or broken, or
// what such a program shows people instead. What a training program prints, a line
// of JSON a step perhaps, is neither.
func Known(text []byte) bool {
	text = withoutScript(text)
	body := bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), " \t\r\n")
	if len(body) == 0 {
		return false
	}
	for _, p := range printed[:len(printed)-1] { // the last is any JSON behind other words
		if p.line.Match(text) {
			return true
		}
	}
	return testEvents(body) != nil || hasBenchLine(text) || members.Match(text) || hasPlainLine(text) || isPlainText(body) || isForeign(body)
}

// isForeign reports whether a text is nothing but documents of one foreign format.
func isForeign(body []byte) bool {
	if body[0] != '{' && body[0] != '[' {
		return false
	}
	docs, err := documents(document.NullNumbers(body))
	return err == nil && kindOf(docs) != ""
}
