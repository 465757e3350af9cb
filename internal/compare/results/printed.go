package results

import (
	"bytes"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// output is a known program's human-readable output.
type output struct {
	begins   []string // possible beginnings of the line that identifies the output; a quick test before the pattern
	line     *lazyregexp.Regexp
	is, give string // for the message: what the text is, and what to give instead
}

// printed lists known outputs by pattern, with the option that writes a result file instead.
var printed = []output{
	{[]string{"Benchmark ", "command,", "| Command"}, lazyregexp.New(`^Benchmark #?\d+: |^command,mean,stddev,|^\| Command \| Mean \[`), "hyperfine shows", "hyperfine --export-json FILE"},
	{[]string{"Benchmark ", "name,"}, lazyregexp.New(`^Benchmark +Time +CPU +Iterations|^name,iterations,real_time,cpu_time,`), "Google Benchmark shows", "--benchmark_out=FILE --benchmark_out_format=json"},
	{[]string{"|"}, lazyregexp.New(`^\|.* Samples \| *CPU Time *\|`), "NVBench shows", "--jsonbin FILE"},
	{[]string{"-"}, lazyregexp.New(`^-+ benchmark.*: \d+ tests -+\r?\n?$`), "pytest-benchmark shows", "--benchmark-json FILE"},
	{[]string{"# JMH", "Benchmark "}, lazyregexp.New(`^# JMH version: |^Benchmark +(\([\w.]+\) +)*Mode +Cnt +Score`), "JMH shows", "-rf json -rff FILE"},
	{[]string{"="}, lazyregexp.New(`^=+ Serving Benchmark Result =+\r?\n?$`), "vllm bench serve shows", "--save-result --result-filename FILE"},
	// A program may print other text before its JSON.
	{[]string{"[", "{"}, lazyregexp.New(`^[\[{]\s*$|^\{"`), "a program printed before its JSON", "the JSON alone, best in a file"},
}

// isIn reports whether a line of the text matches the output's pattern. Lines are matched one by one, because matching
// 40 MiB as a whole took 9 s.
func (o *output) isIn(text []byte) bool {
	for line := range bytes.Lines(text) {
		begins := func(s string) bool { return len(line) >= len(s) && string(line[:len(s)]) == s }
		if slices.ContainsFunc(o.begins, begins) && o.line.Match(line) {
			return true
		}
	}
	return false
}

// foreignText returns an error with the fix for a recognized text that is no result; nil for other texts.
func foreignText(text []byte, name string) error {
	for _, p := range printed {
		if p.isIn(text) {
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
		if p.isIn(text) {
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
