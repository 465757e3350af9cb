package report_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gpuprof/gpuprof/report/page"
)

// truth is the numbers of a document. Those that no list of samples holds are scalars.
type truth struct {
	all, scalars []float64
	written      []float64            // all without what was computed of them
	words        map[string]int       // as the page prints them
	samples      map[string][]float64 // of a comparison, by metric and side
}

// truthOf reads every number of JSON, those in texts (the value of a knob) too.
func truthOf(g *guarded) *truth {
	t := &truth{words: map[string]int{}, samples: map[string][]float64{}}
	d := json.NewDecoder(strings.NewReader(g.json))
	for {
		var doc any
		if d.Decode(&doc) != nil {
			break
		}
		t.read(doc, true)
	}
	t.sort()
	return t
}

func (t *truth) sort() {
	slices.Sort(t.all)
	slices.Sort(t.written)
	slices.Sort(t.scalars)
	t.scalars = slices.DeleteFunc(slices.Compact(t.scalars), func(v float64) bool { return v == 0 })
}

// with adds the numbers of a page: a figure of the page must be among them.
func (t *truth) with(p *page.Page) *truth {
	out := &truth{all: slices.Clone(t.all), scalars: slices.Clone(t.scalars), written: t.written, words: bag(saidBy(p, page.HTML).may...), samples: t.samples}
	for n := range t.words {
		out.words[n]++
	}
	cellsOf(p.Sections, func(_ string, _ page.Row, _ page.Column, c page.Cell) {
		if c.Unit != "" && !math.IsNaN(c.Value) {
			out.all = append(out.all, c.Value)
		}
	})
	out.sort()
	return out
}

const mostScalars = 8 // numbers of a list whose numbers are no samples

func (t *truth) read(v any, scalar bool) {
	switch v := v.(type) {
	case float64:
		t.all, t.written = append(t.all, v), append(t.written, v)
		if scalar && v != 0 {
			t.scalars = append(t.scalars, v)
		}
	case string:
		if n, err := strconv.ParseFloat(v, 64); err == nil {
			t.read(n, scalar)
		}
		for n := range bag(v) {
			t.words[n]++
		}
	case []any:
		t.stages(v)
		list, inside := numbers(v), 0
		for _, e := range v {
			t.read(e, scalar && len(list) <= mostScalars)
			if l, ok := e.([]any); ok {
				inside += len(l)
			}
		}
		t.all = append(t.all, float64(len(v)))
		t.words[strconv.Itoa(len(v))]++ // "72 samples", of a process and of all
		t.words[strconv.Itoa(inside)]++
		if len(list) > 0 {
			slices.Sort(list)
			t.all = append(t.all, (list[(len(list)-1)/2]+list[len(list)/2])/2) // a process's median
			if len(list) > mostScalars {
				t.scalars = append(t.scalars, list[len(list)-1])
			}
		}
	case map[string]any:
		if both, ok := v["samples"].(map[string]any); ok {
			for side, runs := range both {
				name, _ := v["name"].(string)
				lists, _ := runs.([]any)
				for _, run := range lists {
					list, _ := run.([]any)
					t.samples[name+" "+side] = append(t.samples[name+" "+side], numbers(list)...)
				}
			}
		}
		if c, ok := v["counters"].(map[string]any); ok { // a rate of memory is of both
			read, _ := c["bytes_read"].(float64)
			written, _ := c["bytes_written"].(float64)
			t.all, t.scalars = append(t.all, read+written), append(t.scalars, read+written)
		}
		t.histogram(v)
		t.served(v)
		at, _ := v["t_s"].([]any)
		value, _ := v["value"].([]any)
		t.rates(at, value)
		for _, e := range v {
			t.read(e, scalar)
		}
	}
}

// histogram adds what an encoded histogram holds: each of its values, and where a share of
// them ends on an axis of percentiles.
func (t *truth) histogram(v map[string]any) {
	text, _ := v["hdr"].(string)
	most, _ := v["max_s"].(float64)
	h, err := hdr.Decode([]byte(text))
	if err != nil || h.TotalCount() == 0 {
		return
	}
	for _, b := range h.Distribution() {
		if b.Count > 0 {
			t.all = append(t.all, min(float64(b.To)*1e-9, most))
		}
	}
	for _, b := range h.CumulativeDistributionWithTicks(8) {
		beyond := 1 - b.Quantile/100
		if beyond <= 0 {
			beyond = 1 / float64(h.TotalCount())
		}
		t.all = append(t.all, -math.Log10(beyond))
	}
}

// served adds what the parts of a load and the sizes of its batches come to, the share of its
// requests that were refused in all processes, and the places of percentiles.
func (t *truth) served(v map[string]any) {
	if start, ok := v["start_s"].(float64); ok {
		length, _ := v["seconds"].(float64)
		t.all = append(t.all, start+length/2)
	}
	if share, ok := v["share"].(float64); ok {
		t.all = append(t.all, -math.Log10(1-share))
		t.words[strconv.FormatFloat(100*share, 'g', -1, 64)]++ // "p99.9"
	}
	processes, _ := v["processes"].([]any)
	scheduled, refused := 0.0, 0.0
	for _, e := range processes {
		p, _ := e.(map[string]any)
		n, _ := p["scheduled"].(float64)
		m, _ := p["refused"].(float64)
		scheduled, refused = scheduled+n, refused+m
	}
	if scheduled > 0 {
		t.all = append(t.all, refused/scheduled)
	}
	list, _ := v["batches"].([]any)
	counts := numbers(list)
	total, requests := 0.0, 0.0
	for i, n := range counts {
		total, requests = total+n, requests+n*float64(i+1)
		t.all = append(t.all, float64(i)+0.6, float64(i)+1.4, float64(i+1))
	}
	for _, n := range counts {
		t.all = append(t.all, n/total)
	}
	if total > 0 {
		t.all = append(t.all, requests/total)
	}
}

// numbers returns the numbers of a list.
func numbers(list []any) (out []float64) {
	for _, e := range list {
		if v, ok := e.(float64); ok {
			out = append(out, v)
		}
	}
	return out
}

// stages adds what the exposed samples of a run's stages come to: shares are of it.
func (t *truth) stages(list []any) {
	total, sums := 0.0, []float64{}
	for _, e := range list {
		stage, _ := e.(map[string]any)
		exposed, _ := stage["exposed"].(map[string]any)
		runs, _ := exposed["runs"].([]any)
		sum := 0.0
		for _, run := range runs {
			samples, _ := run.([]any)
			for _, v := range numbers(samples) {
				sum += v
			}
		}
		t.all, sums = append(t.all, sum), append(sums, sum)
		total += sum
	}
	slices.Sort(sums)
	small := 0.0
	for _, sum := range sums { // those that are too small for a bar of their own, together
		small += sum
		t.all = append(t.all, small)
	}
	t.scalars = append(t.scalars, total)
}

// rates adds by how much a quantity grew per second from reading to reading.
func (t *truth) rates(at, value []any) {
	for i := 1; i < min(len(at), len(value)); i++ {
		if p := numbers([]any{at[i-1], at[i], value[i-1], value[i]}); len(p) == 4 {
			t.all = append(t.all, (p[3]-p[2])/(p[1]-p[0]))
		}
	}
}

// has says whether a value is among the numbers, to the last digits of a float; nanoseconds
// of the document are seconds in a
// figure, its clocks MHz and its bytes MiB.
func (t *truth) has(v float64) bool {
	return v == 0 || t.holds(v) || t.holds(v*1e9) || t.holds(v*1e6) || t.holds(v*(1<<20))
}

func (t *truth) holds(v float64) bool { return t.within(v, exact*math.Abs(v)+1e-300) }

// exact is the relative room of a float that was computed in another order.
const exact = 2e-10

func (t *truth) within(v, room float64) bool {
	i, _ := slices.BinarySearch(t.all, v-room)
	return i < len(t.all) && t.all[i] <= v+room
}

// near is has for a number of few digits.
func (t *truth) near(v float64) bool {
	i, _ := slices.BinarySearch(t.all, v-1e-6*math.Abs(v))
	return t.has(v) || i < len(t.all) && t.all[i] <= v+1e-6*math.Abs(v)
}

// derived says whether a value is a number of the document, or the ratio, change, sum or
// difference of two.
func (t *truth) derived(v float64) bool {
	if t.has(v) {
		return true
	}
	room := exact * math.Abs(v)
	for _, b := range t.scalars {
		if t.holds(v*b) || t.holds(b/v) || t.holds(v*b*1e9) || math.Abs(v) > 1e-8 && t.holds((1+v)*b) {
			return true
		}
		if near := math.Abs(b) < 1e4*math.Abs(v); near && (t.within(b+v, room) || t.within(b-v, room)) {
			return true // by how much two differ
		}
		if ns := math.Abs(b) < 1e13*math.Abs(v); ns && (t.within(b+v*1e9, room*1e9) || t.within(b-v*1e9, room*1e9)) {
			return true
		}
	}
	return false
}

var (
	stamp   = regexp.MustCompile(`95.%|float(?:32|64)|\d{4}-\d\d-\d\d(?: \d\d:\d\d UTC)?`)
	grouped = regexp.MustCompile("([0-9])[\u202f,]([0-9])")
	unitOf  = regexp.MustCompile(`^(?:(?: to |-)[-+]?[\d.]+)? ?([A-Za-z%]+)`)
)

// unsaid are the numbers of a text, of two digits or more, that neither a mark's extents nor
// the document has.
func (t *truth) unsaid(text string, extents []float64) (out []string) {
	text = grouped.ReplaceAllString(stamp.ReplaceAllString(text, ""), "$1$2")
	for _, at := range numeral.FindAllStringIndex(text, -1) {
		n, unit := text[at[0]:at[1]], ""
		if m := unitOf.FindStringSubmatch(text[at[1]:]); m != nil {
			unit = m[1]
		}
		said := func(v float64) bool {
			return unit == "%" && reads(n, v-1, 0.01) || slices.ContainsFunc(scalesOf(unit), func(s float64) bool { return reads(n, v, s) })
		}
		part := func(b float64) bool { // a share or ratio of a mark's extent
			return unit == "%" && slices.ContainsFunc(extents, func(v float64) bool { return reads(n, v/b, 0.01) || reads(n, v*1e9/b, 0.01) })
		}
		switch {
		case t.words[n] > 0 || len(strings.Trim(n, ".0")) < 2:
		case slices.ContainsFunc(extents, func(v float64) bool {
			return slices.ContainsFunc(scales, func(s float64) bool { return reads(n, v, s) }) || reads(n, v-1, 0.01)
		}):
		case len(extents) == 0 && slices.ContainsFunc(t.scalars, said), slices.ContainsFunc(t.scalars, part):
		default:
			out = append(out, n)
		}
	}
	return out
}

// scales are what a number is divided by before it is printed.
var scales = []float64{1, 1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9, 1e12, 0.01, 1 << 10, 1 << 20, 1 << 30}

// scalesOf returns the scales of a unit; nanoseconds of a document are printed as seconds too.
func scalesOf(unit string) []float64 {
	if s, ok := map[string]float64{"%": 0.01, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]; ok {
		return []float64{s}
	}
	if s, ok := prefixes[unit]; ok {
		return []float64{s, s * 1e9}
	}
	if unit == "mJ" {
		return []float64{1e-3}
	}
	if s, ok := map[byte]float64{'k': 1e3, 'M': 1e6, 'G': 1e9, 'T': 1e12}[(unit + " ")[0]]; ok {
		return []float64{s}
	}
	return []float64{1}
}

// reads says whether a printed number times a scale is a value, to the digits that it has.
func reads(n string, v, scale float64) bool {
	said, err := strconv.ParseFloat(n, 64)
	mantissa, exponent, _ := strings.Cut(n, "e")
	_, digits, _ := strings.Cut(mantissa, ".")
	e, _ := strconv.Atoi(exponent)
	return err == nil && math.Abs(math.Abs(v)/scale-said) <= 0.5001*math.Pow10(e-len(digits))
}

// unfounded are the numbers of a page that the document does not have: a figure's value, the
// text of a figure that is not its value, and a number of any other text that neither the
// document nor a figure of the page has.
func unfounded(p *page.Page, t *truth) (out []string) {
	known := &truth{all: slices.Clone(t.all), scalars: slices.Clone(t.scalars), written: nil, words: maps.Clone(t.words), samples: nil}
	figures := map[string]bool{}
	cellsOf(p.Sections, func(section string, row page.Row, column page.Column, c page.Cell) {
		if c.Unit == "" || math.IsNaN(c.Value) {
			return
		}
		where := fmt.Sprintf("%s of %s in %s", column.Title, row.Cells[0].Text, section)
		switch {
		case !t.derived(c.Value) && !measuredAnew(section):
			out = append(out, fmt.Sprintf("page has %g as %s", c.Value, where))
		case !spells(c):
			out = append(out, fmt.Sprintf("page prints %s for %g as %s", c.Text, c.Value, where))
		}
		figures[c.Text] = true
		known.scalars = append(known.scalars, c.Value)
	})
	for _, text := range saidBy(p, page.HTML).must {
		if figures[text] {
			continue
		}
		for _, n := range known.unsaid(text, nil) {
			// A search holds changes, and the bar of its answer shows them as ratios.
			shown := strings.HasPrefix(p.Title, "bisect ") && slices.ContainsFunc(known.scalars, func(change float64) bool { return reads(n, 1+change, 1) })
			if madeUp[n] != "" || shown {
				continue
			}
			out = append(out, fmt.Sprintf("page has %s in %q", n, text))
		}
	}
	return out
}

// madeUp are the numbers of the fixtures' pages that are made of several of the document's
// when it is shown, and of what.
var madeUp = map[string]string{
	"11": "metrics less those with another verdict", "21": "the same", "0.044": "the calibrated cost of spans as a share of the step", "52.0": "share by which a step became shorter", "0.999": "bound of a probability",
	"183":  "seconds of builds and measurements",
	"53.0": "interval of a step's change, from the variation of the steps", "51.0": "the same", "0.480": "the step's ratio", "0.470": "its interval", "0.490": "its interval",
	"12.8":    "the step less what a rank costs",
	"5721028": "a part of a commit's id", "1.55": "sum of the least bytes",
}

// measuredAnew says which section holds estimates that are made of the document when it is
// shown: the search for a commit, whose estimates are the posterior's.
func measuredAnew(section string) bool { return section == "probes" }

// spells says whether a number of a cell's text is its value, or the change that a ratio is.
func spells(c page.Cell) bool {
	bound := strings.ContainsAny(c.Text, "<>") || !numeral.MatchString(c.Text)
	text := grouped.ReplaceAllString(c.Text, "$1$2")
	for _, at := range numeral.FindAllStringIndex(text, -1) {
		unit := ""
		if m := unitOf.FindStringSubmatch(text[at[1]:]); m != nil {
			unit = m[1]
		}
		n := text[at[0]:at[1]]
		if reads(n, c.Value-1, 0.01) || slices.ContainsFunc(scalesOf(unit), func(s float64) bool { return reads(n, c.Value, s) }) {
			return true
		}
	}
	return bound
}
