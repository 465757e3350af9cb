package results

import (
	"bytes"
	"fmt"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// reader reads a file by its path.
type reader func(path string) ([]byte, error)

// sniff recognizes the format of a text and reads it. Parse then checks the results.
func sniff(text []byte, name string, read reader) (rs []*compare.Result, format string, err error) {
	text = stripScript(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")))
	body := bytes.TrimLeft(text, " \t\r\n") // only for the test: errors count lines in the whole text
	if len(body) == 0 {
		return nil, "", gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: the file is empty", name).WithFix("run the program that should have written it: it probably failed")
	}
	if events := testEvents(body); events != nil {
		return parseText(events, name)
	}
	if body[0] != '{' && body[0] != '[' || !members.Match(body) && hasPlainLine(body) {
		return parseText(text, name)
	}
	docs, err := splitDocuments(document.NullNumbers(text))
	if err != nil {
		return nil, "", gpuprof.Unreadable("reading results "+name, err, "the file was cut or is not JSON: write it again")
	}
	for i := range docs {
		docs[i].path, docs[i].read = name, read
	}
	switch kind := kindOf(docs); {
	case kind == "" && len(docs) == 1 && isPlain(docs[0]):
		return readForeign(docs, FormatPlain, name)
	case kind == "":
		return nil, "", unknownFormat(name, docs)
	case kind == FormatRun:
		return readRuns(docs, name)
	case kind == FormatAnalysis:
		return readAnalyses(docs, name)
	default:
		return readForeign(docs, kind, name)
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
	read   func(p *parsed, d jsonValue) error
}{
	{FormatGuideLLM, isGuideLLM, readGuideLLM},
	{FormatPytest, isPytest, readPytest},
	{FormatGoogle, isGoogle, readGoogle},
	{FormatNVBench, isNVBench, readNVBench},
	{FormatASV, isASV, readASV},
	{FormatHyperfine, isHyperfine, readHyperfine},
	{FormatJMH, isJMH, readJMH},
	{FormatVLLM, isVLLM, readVLLM},
	{FormatAIPerf, isAIPerf, readAIPerf},
	{FormatGitHub, isGitHub, readGitHub},
	{FormatGitHub, isGitHubData, readGitHubData},
	{FormatBMF, isBMF, readBMF},
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

func readRuns(docs []jsonValue, name string) (out []*compare.Result, format string, err error) {
	for _, d := range docs {
		if err := document.Fits(d.room, d.raw, &gpuprof.Run{}); err != nil { // the budget covers all documents together
			return nil, "", gpuprof.Unreadable("reading run "+name, err, "")
		}
		runs, err := document.Runs(d.raw, name)
		if err != nil {
			return nil, "", err
		}
		for _, run := range runs {
			r, err := compare.FromRun(run)
			if err != nil {
				return nil, "", err
			}
			r.Source = name
			out = append(out, r)
		}
	}
	return out, FormatRun, nil
}

func readAnalyses(docs []jsonValue, name string) ([]*compare.Result, string, error) {
	if len(docs) != 1 {
		return nil, "", gpuprof.Errorf(gpuprof.ErrInput, "reading analysis %s: it holds %d analyses", name, len(docs)).WithFix("give one with each file")
	}
	a, err := analyze.Decode(docs[0].raw, name)
	if err != nil {
		return nil, "", err
	}
	r := FromAnalysis(a)
	r.Source = name
	return []*compare.Result{r}, FormatAnalysis, nil
}

func readForeign(docs []jsonValue, kind, name string) ([]*compare.Result, string, error) {
	all := newParsed(kind)
	for i, d := range docs {
		p := newParsed(kind)
		if err := readOne(p, d); err != nil {
			where := ""
			if len(docs) > 1 {
				where = fmt.Sprintf(", document %d", i+1)
			}
			return nil, "", gpuprof.Unreadable(fmt.Sprintf("reading results %s (%s%s)", name, kind, where), err, "write it again")
		}
		all.merge(p)
	}
	return all.finish(name)
}

// readOne reads a document with the first reader of its format whose test accepts it: GitHub's format has two kinds.
func readOne(p *parsed, d jsonValue) error {
	for _, f := range foreign {
		if f.format == p.Tool && f.is(d) {
			return f.read(p, d)
		}
	}
	return readPlainJSON(p, d)
}

func parseText(text []byte, name string) ([]*compare.Result, string, error) {
	if bytes.HasPrefix(text, []byte("SQLite format 3\x00")) {
		return nil, "", gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: it is a database, perhaps an nsys export", name).WithFix("gpuprof analyze reads that, and gate takes it with --max")
	}
	if !hasBenchLine(text) {
		if err := foreignText(text, name); err != nil {
			return nil, "", err
		}
		if hasPlainLine(text) {
			return readPlain(text).finish(name)
		}
		return nil, "", gpuprof.Errorf(gpuprof.ErrInput, "reading results %s: it has no line of a Go benchmark, no line \"name value unit\", and is not JSON", name).WithFix("give %s", known)
	}
	p, err := readGo(text, name)
	if err != nil {
		if other := foreignText(text, name); other != nil {
			return nil, "", other
		}
		return nil, "", gpuprof.Unreadable(fmt.Sprintf("reading results %s (%s)", name, FormatGo), err, "run go test -bench again")
	}
	return p.finish(name)
}
