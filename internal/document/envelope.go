package document

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/outside"
)

// early is a rule for files that were written before the kinds got their present names. A file with the kind gave and
// the given member has the present kind is. Files of later rows never have that member.
type early struct {
	gave   gpuprof.DocumentKind
	member string
	is     gpuprof.DocumentKind
}

// earlyFiles is the table of early files; the first matching row applies.
func earlyFiles() []early {
	return []early{
		{"files", "", Comparison},
		{"budget", "", Comparison},
		{"baseline", "verdict", Comparison},
		{"", "step_old_ns", TraceComparison},
		{"", "step_source", Analysis},
		{"", "workload", Run},
		{"", "block_seconds", Noise},
		{"", "sessions", Baseline},
		{"", "traces", Recording},
		{"", "traceEvents", Timeline},
		{"", "made_by", GPUCheck},
		{"", "off", Health},
		{"", "verdict", Comparison},
		{"", "cases", Check},
		{"", "stages", Check},
		{"", "devices", Ranges},
	}
}

const mostHead = 4 << 10

// HeadOf reads the envelope of a JSON text, or of the first document in a list; text may end after the envelope. A
// file in earlyFiles gets its kind by its members. Version is empty if gpuprof did not write the text. Kind is empty if
// it is unknown.
func HeadOf(text []byte) gpuprof.Head {
	if i := jsonSpace(text, 0); i < len(text) && text[i] == '[' {
		text = text[i+1:]
	}
	var h gpuprof.Head
	rows := earlyFiles()
	has := map[string]bool{"": true}
	JSONMembers(text, func(key string, value []byte) bool {
		if len(value) > mostHead { // no name is so long
			value = nil
		}
		switch key { // members of another type are ignored
		case "kind":
			_ = json.Unmarshal(value, &h.Kind)
		case "schema_version":
			_ = json.Unmarshal(value, &h.Version)
		case "tool":
			_ = json.Unmarshal(value, &h.Tool)
		default:
			if slices.ContainsFunc(rows, func(r early) bool { return r.member == key }) {
				has[key] = true
			}
		}
		return h.Version == "" || h.Tool.Name == "" || h.Kind == "" || h.Kind == Baseline
	})
	CleanStrings(&h)
	if gpuprof.MajorOf(h.Version) < 0 {
		h.Version = ""
	}
	for _, r := range rows {
		if r.gave == h.Kind && has[r.member] {
			h.Kind = r.is
			break
		}
	}
	return h
}

// Enveloped is a document; it embeds a gpuprof.Head.
type Enveloped interface{ Envelope() *gpuprof.Head }

// Decode reads a document of one of the wanted kinds into v. name is the file's name, for errors. It returns Accept's
// error, or ErrInput for a text that is damaged, malformed or needs more memory than DecodedMemory.
func Decode(text []byte, name string, v Enveloped, want ...gpuprof.DocumentKind) error {
	return decodeIn(outside.NewRoom(), text, name, v, want)
}

func decodeIn(room *outside.Room, text []byte, name string, v Enveloped, want []gpuprof.DocumentKind) error {
	h, err := Accept(text, name, want...)
	if err != nil {
		return err
	}
	if err := decodeJSON(text, v, room); err != nil {
		return kindOf(want[0]).damagedError(name, err)
	}
	e := v.Envelope()
	if kindOf(e.Kind).version == "" {
		e.Kind = h.Kind // of an early file
	}
	e.Answered = nil // the answer is computed, not read
	return nil
}

// Accept returns the head of a document of one of the wanted kinds. The error is ErrInput if the text is no JSON, not
// gpuprof's, of another kind or of a newer major version.
func Accept(text []byte, name string, want ...gpuprof.DocumentKind) (gpuprof.Head, error) {
	h := HeadOf(text)
	newer := func(k gpuprof.DocumentKind) bool { return gpuprof.MajorOf(h.Version) > gpuprof.MajorOf(Version(k)) }
	if slices.Contains(want, h.Kind) && h.Version != "" && !newer(h.Kind) {
		return h, nil
	}
	first := kindOf(want[0])
	if len(bytes.TrimSpace(text)) == 0 {
		return h, gpuprof.Errorf(gpuprof.ErrInput, "reading %s %s: the file is empty", first.noun(), name).WithFix("give %s", first.give)
	}
	if err := syntaxOf(text); err != nil {
		return h, first.damagedError(name, err)
	}
	refuse := func(fix, format string, args ...any) (gpuprof.Head, error) {
		return h, gpuprof.Errorf(gpuprof.ErrInput, "reading %s %s: %s", first.noun(), name, fmt.Sprintf(format, args...)).WithFix("%s", fix)
	}
	const update = "update gpuprof"
	known := Version(h.Kind) != ""
	switch {
	case h.Version == "":
		return refuse("give "+first.give, "it has no schema_version and was not written by %s", first.writer)
	case known && !slices.Contains(want, h.Kind):
		return refuse("give "+first.give, "%s", Is(h.Kind))
	case known, h.Kind == "" && newer(first.name):
		return refuse(update, "schema_version %s is newer than this gpuprof's %s", h.Version, cmp.Or(Version(h.Kind), first.version))
	case h.Kind != "" && h.Tool.Name == "gpuprof":
		return refuse(update, "it is of the kind %q, which this gpuprof does not know", h.Kind)
	}
	return refuse("give "+first.give, "it names no kind of document and was not written by %s", first.writer)
}

// syntaxOf returns the JSON syntax error of a text.
func syntaxOf(text []byte) error {
	if !json.Valid(text) {
		text = NullNumbers(text)
	}
	if json.Valid(text) {
		return nil
	}
	return PlainSyntax(json.Unmarshal(text, &struct{}{}))
}

// PlainSyntax returns a JSON syntax error with the position of the first invalid byte; other errors unchanged.
func PlainSyntax(err error) error {
	syntax, is := errors.AsType[*json.SyntaxError](err)
	switch {
	case !is:
		return err
	case syntax.Offset <= 1:
		return errors.New("it is no JSON")
	}
	return fmt.Errorf("it is no JSON from byte %d on", syntax.Offset)
}

// damagedError returns the error for a document that cannot be decoded.
func (k kind) damagedError(name string, err error) error {
	return gpuprof.Unreadable("reading "+k.noun()+" "+name, err, "the file is damaged or not JSON: give "+k.give)
}

// noun returns the kind without its article.
func (k kind) noun() string {
	_, noun, _ := strings.Cut(k.a, " ")
	return noun
}
