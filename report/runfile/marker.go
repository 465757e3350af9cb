package runfile

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// Every format has a mark by which gpuprof recognizes its own files. A file that only mentions gpuprof has no such
// mark.

// Marker is the mark in formats with comments.
const Marker = "written by gpuprof"

// CSVMark is the first column's title in a .csv of runs, CSVHistoryMark the first titles in a .csv of a history.
const (
	CSVMark        = "gpuprof_run"
	CSVHistoryMark = "project,benchmark,class,commit,committed,started,metric"
)

// SpeedscopeMark begins a speedscope file. The format has no comments, but a field for its writer.
const SpeedscopeMark = `{"exporter":"gpuprof`

// textMarker returns the line that Write puts first in text formats. Renderers do not write it, because they also print
// to terminals.
func textMarker(f Format) string {
	switch f.Name {
	case "markdown":
		return "<!-- " + Marker + " -->\n\n"
	case "folded": // readers of the format parse lines that end in a number as stacks
		return "# " + Marker + "\n"
	case "table", "bench", "prometheus":
		return "# " + Marker + "\n\n"
	}
	return ""
}

// cutTrace is the beginning of a file with a part that gpuprof cut out of a trace.
const cutTrace = `{"` + document.PartMember + `":`

// recordingMagic begins a recording of the CUDA recorder. partChunk is the type of the first chunk of a part that was
// cut out of a recording (internal/trace/read/cupti).
const (
	recordingMagic = "gpuprof\x1a"
	partChunk      = 16
)

const headBytes = 8 << 10

// headText is the number of bytes at the start of a JSON document that are searched for the name of its writer.
const headText = 64 << 10

// writtenByUs reports whether a file has gpuprof's mark. A file that cannot be parsed has none.
func writtenByUs(path string, f Format) (bool, error) {
	if f.Name == "pprof" {
		text, err := outside.ReadFound(path)
		if err != nil {
			return false, nil
		}
		p, err := outside.ParseProfile(text)
		return err == nil && slices.ContainsFunc(p.Comments, func(c string) bool { return strings.HasPrefix(c, Marker) }), nil
	}
	file, err := outside.Found(path, outside.Trace()) // only the beginning is read, whatever the size
	if err != nil {
		return false, err
	}
	defer file.Close()
	if f.Name == "json" || f.Name == "perfetto" {
		head := file.Text().Peek(headText)
		if bytes.HasPrefix(head, []byte(cutTrace)) {
			return true, nil
		}
		h := document.HeadOf(head)
		return h.Version != "" && h.Tool.Name == "gpuprof", nil
	}
	head, err := file.Head(headBytes)
	if err != nil {
		return false, err
	}
	switch f.Name {
	case "bmf", "openmetrics":
		return ourMetrics.Match(head), nil
	case "speedscope":
		return bytes.HasPrefix(head, []byte(SpeedscopeMark)), nil
	case "recording": // a part of a recording; a complete recording is replaced only with --force
		return bytes.HasPrefix(head, []byte(recordingMagic)) && len(head) > 21 && binary.LittleEndian.Uint16(head[20:]) == partChunk, nil
	case "csv":
		return bytes.HasPrefix(head, []byte(CSVMark+",")) || bytes.HasPrefix(head, []byte(CSVHistoryMark+",")), nil
	case "html":
		return ourHTML(head), nil
	case "png":
		return ourPNG(head), nil
	case "svg", "junit":
		return ourSVG(head), nil
	}
	return bytes.HasPrefix(head, []byte(strings.TrimRight(textMarker(f), "\n"))), nil
}

var (
	htmlComment = lazyregexp.New(`(?s)<!--.*?(-->|$)`)
	htmlBody    = lazyregexp.New(`(?i)<(body|script|title|style)[\s>]`)
	generator   = lazyregexp.New(`(?i)<meta\s+name="generator"\s+content="gpuprof[ "]`)
	ourMetrics  = lazyregexp.New(`^(\{\s*"gpuprof/|# TYPE gpuprof_result_)`) // neither format has comments
	svgMark     = lazyregexp.New(`^(\s*<\?xml[^>]*\?>)?\s*<!-- ` + Marker + `\b`)
)

// ourHTML requires the generator element, in the head, before any element that could quote it.
func ourHTML(head []byte) bool {
	head = htmlComment.ReplaceAll(head, nil)
	if at := htmlBody.FindIndex(head); at != nil {
		head = head[:at[0]]
	}
	return generator.Match(head)
}

// ourSVG requires the comment before the root element, as in all XML of gpuprof.
func ourSVG(head []byte) bool { return svgMark.Match(head) }

// ourPNG requires Software=gpuprof in the chunks before the picture data.
func ourPNG(head []byte) bool {
	rest, ok := bytes.CutPrefix(head, []byte("\x89PNG\r\n\x1a\n"))
	for ok && len(rest) >= 12 {
		n := binary.BigEndian.Uint32(rest)
		kind := string(rest[4:8])
		if kind == "IDAT" || uint64(n)+12 > uint64(len(rest)) {
			return false
		}
		if text, is := bytes.CutPrefix(rest[8:8+n], []byte("Software\x00")); is && kind == "tEXt" {
			name, _, _ := strings.Cut(string(text), " ")
			return name == "gpuprof"
		}
		rest = rest[12+n:]
	}
	return false
}
