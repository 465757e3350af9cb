// Package brief shortens a result document of gpuprof (a run, an analysis, a comparison) to a number of tokens, for
// language models. The short document has the answer, the findings with their change and the command that verifies the
// change, and counts of omitted items. A builder is a pure function of the complete document; Write shortens its result
// to the number of tokens and encodes it.
package brief

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/report/internal/view"
)

// Document is the short form of another document. Lists begin with the most important items; LeftOut counts the omitted
// ones.
type Document struct {
	gpuprof.Head
	Of       gpuprof.DocumentKind `json:"of"`                  // kind of the complete document
	Inputs   []string             `json:"inputs,omitempty"`    // files, or the sides of a comparison
	Summary  string               `json:"summary"`             // the answer in a few sentences
	Verdict  string               `json:"verdict,omitempty"`   // of a comparison, or of the health of GPUs
	ExitCode *int                 `json:"exit_code,omitempty"` // exit code of the verdict

	Findings     []Finding         `json:"findings"`
	Outcomes     []Outcome         `json:"outcomes,omitempty"` // findings before and after a change
	Metrics      []Metric          `json:"metrics,omitempty"`
	Checks       []Check           `json:"checks,omitempty"`
	Explanations []Explanation     `json:"explanations,omitempty"`
	Explained    []string          `json:"explained,omitempty"` // sentences about the largest parts of a step
	Warnings     []gpuprof.Warning `json:"warnings,omitempty"`
	Next         []string          `json:"next,omitempty"` // what would decide an open verdict

	LeftOut []LeftOut `json:"left_out,omitempty"`
	Whole   string    `json:"whole"` // how to get the complete document
}

// Finding is one suggested change.
type Finding struct {
	ID        string           `json:"id"` // rule: see gpuprof explain ID
	Severity  gpuprof.Severity `json:"severity,omitempty"`
	Suspected bool             `json:"suspected,omitempty"` // the evidence is indirect
	Title     string           `json:"title,omitempty"`
	Where     []string         `json:"where,omitempty"` // places in the program, the most expensive first
	// Claim is the largest possible saving, in Unit; null if nothing is claimed. It is not a measurement.
	Claim gpuprof.Number `json:"claim"`
	Unit  string         `json:"unit"`            // "s per step", "s" of a recording without steps, "bytes"
	Share float64        `json:"share,omitempty"` // claim as a share of the step, the recording or the peak, 0 to 1
	// Interval bounds the saving in Unit, from 0 to the claim, which is an upper bound and no estimate. The command of
	// Verify measures the saving with an interval.
	Interval [2]gpuprof.Number `json:"interval"`
	Change   string            `json:"change"`
	Verify   string            `json:"verify"`
	Caveats  []string          `json:"caveats,omitempty"`
}

// Outcome compares a finding before and after a change.
type Outcome struct {
	ID       string `json:"id"`
	Outcome  string `json:"outcome"`   // "gone", "smaller", "unchanged", "larger", "new"
	CameTrue string `json:"came_true"` // "yes", "partly", "no", "not tried", "unknown"
	Text     string `json:"text"`
	// Delivered is the time saved per step in the parts that the finding claimed, s, with its 95 % interval; null if
	// unknown.
	Delivered gpuprof.Number    `json:"delivered_s"`
	Interval  [2]gpuprof.Number `json:"interval"`
}

// Metric is one figure: a single value, or the old and the new value of a comparison.
type Metric struct {
	Name    string          `json:"name"`
	Unit    string          `json:"unit"`
	Value   *gpuprof.Number `json:"value,omitempty"`
	Old     *gpuprof.Number `json:"old,omitempty"`
	New     *gpuprof.Number `json:"new,omitempty"`
	Ratio   *gpuprof.Number `json:"ratio,omitempty"` // new divided by old
	Verdict string          `json:"verdict,omitempty"`
	// Interval is the 95 % interval of Ratio, or of Value if there is no ratio; null if unknown.
	Interval [2]gpuprof.Number `json:"interval"`
	MDE      *gpuprof.Number   `json:"mde,omitempty"` // least slowdown that such data would show, a share
	Reason   string            `json:"reason,omitempty"`
}

// Check is the result of one check.
type Check struct {
	Name   string `json:"name"`
	State  string `json:"state"`
	Found  string `json:"found,omitempty"`
	Reason string `json:"reason,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// Explanation has the texts about a name.
type Explanation struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`
	Texts []string `json:"texts"` // "change: …"
}

// LeftOut counts the items of the complete document that this one omits.
type LeftOut struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Limits of texts, bytes of JSON. The complete document has the whole texts.
const (
	longText  = 420
	shortText = 160
	placeText = 120
)

func newDocument(of gpuprof.Head) *Document {
	return &Document{
		Head: document.NewHead(document.Brief, of.Tool), Of: of.Kind, Findings: []Finding{},
		Whole: "--max-tokens N (max_tokens) gives more, --format json everything",
	}
}

// unknownNumber returns NaN, which is encoded as null.
func unknownNumber() gpuprof.Number { return gpuprof.Number(math.NaN()) }

func optionalNumber(v float64) *gpuprof.Number { n := gpuprof.Number(v); return &n }

// setSaving sets a finding's claim and the interval of its saving. 0 is no claim.
func (f *Finding) setSaving(claim float64, unit string) {
	f.Claim, f.Unit, f.Interval = unknownNumber(), unit, [2]gpuprof.Number{unknownNumber(), unknownNumber()}
	if claim > 0 {
		f.Claim, f.Interval = gpuprof.Number(claim), [2]gpuprof.Number{0, gpuprof.Number(claim)}
	}
}

// countSkipped adds to LeftOut the number of items of a list that short documents never have.
func (d *Document) countSkipped(what string, n int) {
	if n > 0 {
		d.LeftOut = append(d.LeftOut, LeftOut{What: what, Count: n})
	}
}

// mostInputs limits the input files, places, devices and runs that a document names.
const mostInputs = 3

func (d *Document) addInputs(paths ...string) {
	for i, p := range paths {
		if i == mostInputs {
			d.countSkipped("inputs", len(paths)-mostInputs)
			return
		}
		d.Inputs = append(d.Inputs, cutPlace(p))
	}
}

// cutText cuts the end of a text, to about limit bytes of JSON.
func cutText(s string, limit int) string { return cutToBytes(s, limit, view.Cut) }

// cutPlace cuts the front of a code place, to about placeText bytes of JSON.
func cutPlace(s string) string { return cutToBytes(s, placeText, view.CutPlace) }

// least is the number of characters below which no text is cut.
const least = 8

func cutToBytes(s string, limit int, cut func(s string, runes int) string) string {
	for runes := limit; ; runes = runes * 3 / 4 {
		t := cut(s, max(runes, least))
		if text, err := document.EncodeLine(t); err != nil || len(text) <= limit || runes <= least {
			return t
		}
	}
}

func cutTexts(texts []string, limit int) []string {
	var out []string
	for _, t := range texts {
		out = append(out, cutText(t, limit))
	}
	return out
}

// Write writes a document on one line. It shortens it to about the given number of tokens; 0 means
// document.DefaultTokens.
func Write(w io.Writer, d *Document, tokens int) error {
	text, err := document.EncodeLine(d.Trim(cmp.Or(tokens, document.DefaultTokens)))
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("writing a brief document: %w", err)
	}
	return nil
}
