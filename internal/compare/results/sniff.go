package results

import (
	"bytes"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// content is the parsed content of a file: runs, an analysis or figures.
type content struct {
	format   string
	runs     []*gpuprof.Run
	analysis *analyze.Analysis
	parsed   *parsed
}

func sniff(text []byte, name string, read reader) (*content, error) {
	text = stripScript(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	body := bytes.TrimLeft(text, " \t\r\n") // only for the test: errors count lines in the whole text
	if len(body) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: the file is empty", name).WithFix("run the program that should have written it: it probably failed")
	}
	if events := testEvents(body); events != nil {
		return parseText(events, name)
	}
	if body[0] != '{' && body[0] != '[' || !members.Match(body) && hasPlainLine(body) {
		return parseText(text, name)
	}
	docs, err := splitDocuments(document.NullNumbers(text))
	if err != nil {
		return nil, gpuprof.Unreadable("reading results "+name, err, "the file was cut or is not JSON: write it again")
	}
	switch kind := kindOf(docs); kind {
	case "":
		if len(docs) == 1 && isPlain(docs[0]) {
			p, err := readPlainJSON(docs[0])
			if err != nil {
				return nil, gpuprof.Unreadable(fmt.Sprintf("reading results %s (%s)", name, FormatPlain), err, "write it again")
			}
			return finishContent(p, name)
		}
		return nil, unknownFormat(name, docs)
	case FormatRun:
		return readRuns(docs, name)
	case FormatAnalysis:
		return readAnalyses(docs, name)
	default:
		return readForeign(docs, kind, name, read)
	}
}

// kindOf returns the format that all documents share, "" if they share none.
func kindOf(docs []jsonValue) string {
	kind := ""
	for i, d := range docs {
		k := kindOfOne(d)
		if i > 0 && k != kind {
			return ""
		}
		kind = k
	}
	return kind
}

func kindOfOne(d jsonValue) string {
	if d.hasMembers("schema_version") {
		head := document.HeadOf(d.raw)
		switch known := document.Version(head.Kind) != ""; {
		case head.Kind == document.Analysis:
			return FormatAnalysis
		case head.Kind == document.Run, !known && !isAIPerf(d) && gpuprof.MajorOf(head.Version) > gpuprof.MajorOf(document.Version(document.Run)):
			return FormatRun // gpuprof's decoder reports a newer version
		}
	}
	for _, f := range foreign {
		if f.is(d) {
			return f.format
		}
	}
	return ""
}

// foreign lists the JSON formats of other programs, each with a test and a reader; the first test that accepts a file
// decides.
var foreign = []struct {
	format string
	is     func(jsonValue) bool
	read   func(d jsonValue, name string, side reader) (*parsed, error)
}{
	{FormatGuideLLM, isGuideLLM, ignoreFiles(readGuideLLM)},
	{FormatPytest, isPytest, ignoreFiles(readPytest)},
	{FormatGoogle, isGoogle, ignoreFiles(readGoogle)},
	{FormatNVBench, isNVBench, readNVBench},
	{FormatASV, isASV, ignoreFiles(readASV)},
	{FormatHyperfine, isHyperfine, ignoreFiles(readHyperfine)},
	{FormatJMH, isJMH, ignoreFiles(readJMH)},
	{FormatVLLM, isVLLM, ignoreFiles(readVLLM)},
	{FormatAIPerf, isAIPerf, ignoreFiles(readAIPerf)},
	{FormatGitHub, isGitHub, ignoreFiles(readGitHub)},
	{FormatGitHub, isGitHubData, ignoreFiles(readGitHubData)},
	{FormatBMF, isBMF, ignoreFiles(readBMF)},
}

// ignoreFiles adapts a reader that needs no sample files.
func ignoreFiles(read func(jsonValue) (*parsed, error)) func(jsonValue, string, reader) (*parsed, error) {
	return func(d jsonValue, _ string, _ reader) (*parsed, error) { return read(d) }
}

const known = "a gpuprof run, Go benchmark lines, the JSON of NVBench, Google Benchmark, pytest-benchmark, hyperfine, asv, JMH, Bencher, github-action-benchmark, " +
	"vllm bench serve, AIPerf or guidellm, lines \"name value unit\", or a JSON object of numbers"

func unknownFormat(name string, docs []jsonValue) error {
	is := "it is none of the formats known"
	if len(docs) == 0 {
		is = "it holds no result"
	}
	for _, d := range docs {
		head := document.HeadOf(d.raw)
		switch {
		case head.Version != "" && document.Version(head.Kind) != "":
			is = document.Is(head.Kind)
		case head.Version != "":
			is = "it was written by gpuprof but holds no run"
		case d.hasMembers("traceEvents"):
			is = "it is a trace; gpuprof analyze reads it, and gate takes it with --max"
		case kindOf(docs) == "" && kindOfOne(d) != "":
			is = "it mixes documents of several formats"
		default:
			continue
		}
		break
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: %s", name, is).WithFix("give %s", known)
}

func readRuns(docs []jsonValue, name string) (*content, error) {
	c := &content{format: FormatRun}
	for _, d := range docs {
		if err := document.Fits(d.room, d.raw, &gpuprof.Run{}); err != nil { // the budget covers all documents together
			return nil, gpuprof.Unreadable("reading run "+name, err, "")
		}
		runs, err := document.Runs(d.raw, name)
		if err != nil {
			return nil, err
		}
		c.runs = append(c.runs, runs...)
	}
	return c, nil
}

func readAnalyses(docs []jsonValue, name string) (*content, error) {
	if len(docs) != 1 {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading analysis %s: it holds %d analyses", name, len(docs)).WithFix("give one with each file")
	}
	a, err := analyze.Decode(docs[0].raw, name)
	if err != nil {
		return nil, err
	}
	return &content{format: FormatAnalysis, analysis: a}, nil
}

func readForeign(docs []jsonValue, kind, name string, read reader) (*content, error) {
	var all *parsed
	for i, d := range docs {
		p, err := readOne(d, kind, name, read)
		if err != nil {
			where := ""
			if len(docs) > 1 {
				where = fmt.Sprintf(", document %d", i+1)
			}
			return nil, gpuprof.Unreadable(fmt.Sprintf("reading results %s (%s%s)", name, kind, where), err, "write it again")
		}
		if all == nil {
			all = p
			continue
		}
		all.merge(p)
	}
	return finishContent(all, name)
}

// readOne reads a document with the first entry of foreign that has its format and whose test accepts it; GitHub's
// format has two kinds of documents.
func readOne(d jsonValue, kind, name string, read reader) (*parsed, error) {
	for _, f := range foreign {
		if f.format == kind && f.is(d) {
			return f.read(d, name, read)
		}
	}
	return nil, fmt.Errorf("no reader of %s takes it", kind)
}

func parseText(text []byte, name string) (*content, error) {
	if bytes.HasPrefix(text, []byte("SQLite format 3\x00")) {
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: it is a database, perhaps an nsys export", name).WithFix("gpuprof analyze reads that, and gate takes it with --max")
	}
	if !hasBenchLine(text) {
		if err := foreignText(text, name); err != nil {
			return nil, err
		}
		if hasPlainLine(text) {
			return finishContent(readPlain(text), name)
		}
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: it has no line of a Go benchmark, no line \"name value unit\", and is not JSON", name).WithFix("give %s", known)
	}
	p, err := readGo(text, name)
	if err != nil {
		if other := foreignText(text, name); other != nil {
			return nil, other
		}
		return nil, gpuprof.Unreadable(fmt.Sprintf("reading results %s (%s)", name, FormatGo), err, "run go test -bench again")
	}
	return finishContent(p, name)
}

// finishContent completes a file's figures; a file without figures is an error.
func finishContent(p *parsed, name string) (*content, error) {
	p.settleCounts()
	if len(p.series) == 0 {
		if len(p.failed) > 0 {
			return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading results %s (%s): every benchmark failed, the first %s", name, p.format, p.failed[0]).WithFix("correct it and run again")
		}
		why := "it holds no benchmark"
		if len(p.notes) > 0 {
			why += " (" + p.notes[0].Text + ")"
		}
		return nil, gpuprof.Errorf(gpuprof.ErrInput, "reading results %s (%s): %s", name, p.format, why).WithFix("run it again without a filter")
	}
	return &content{format: p.format, parsed: p}, nil
}
