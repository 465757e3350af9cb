package html

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/report/page"
)

// sectionView is a section for page.tmpl. Without a heading it has only blocks.
type sectionView struct {
	ID, Heading    string
	Level          int
	Folded, Beside bool
	Badge          badgeView
	Brief          []string
	Blocks         []blockView
	Sections       []sectionView
}

type blockView struct {
	Text     *textView
	Lines    *linesView
	Table    *tableView
	List     *listView
	Chart    template.HTML
	Note     string // above a chart, or below a timeline
	Timeline bool
	Live     *liveView
}

// liveView has the data of a chart that a script draws.
type liveView struct {
	ID, Kind, Name string
	Data           template.JS
}

type badgeView struct{ Class, Text string }

type textView struct {
	S, Class     string
	Banner, Code bool
}

type linesView struct {
	Lead  bool
	Lines []page.Line
}

type tableView struct {
	Name, Caption, Class, Folded, More string
	Columns                            []columnView
	Rows                               []rowView
	Headed                             bool // some column has a title
	Plain                              bool // narrow enough not to scroll
}

type columnView struct {
	page.Column
	Class string
}

// phoneColumns is the least number of columns that a phone shows, if the table has so many.
const phoneColumns = 3

// laterColumns reports which columns a phone hides until the reader asks for them. A phone hides the columns that a
// narrow terminal drops, and the columns that only HTML pages have.
func laterColumns(columns []page.Column) []bool {
	later, shown := make([]bool, len(columns)), 0
	rank := func(i int) int { // the order in which hidden columns are shown
		if c := columns[i]; c.Wide || c.In&^page.Verbose == page.HTML {
			return math.MaxInt
		}
		return columns[i].Drop
	}
	for i := range columns {
		if later[i] = i > 0 && rank(i) > 1; !later[i] {
			shown++
		}
	}
	for ; shown < min(phoneColumns, len(columns)); shown++ {
		next := -1
		for i, hidden := range later {
			if hidden && (next < 0 || rank(i) < rank(next)) {
				next = i
			}
		}
		later[next] = false
	}
	return later
}

// classOf returns the CSS class of a column. later is for columns that a phone hides.
func classOf(c page.Column, words, later bool) string {
	class := ""
	switch {
	case c.Remark:
		class = "remark"
	case c.Left && !words:
		class = "left"
	}
	if later {
		class += " later"
	}
	return strings.TrimSpace(class)
}

type rowView struct {
	Class string
	Cells []cellView
}

type cellView struct {
	page.Cell
	Class string
	Full  string // full text of a name that may be cut
	Sort  string // the figure that a table is sorted by, "" for the text
}

// cutName is the length in bytes above which a name may be wider than its column, and so be cut.
const cutName = 30

type listView struct {
	Class   string
	Ordered bool
	Items   []itemView
}

type itemView struct {
	page.Item
	Mark badgeView
	Open []blockView
}

// tree converts sections to views for the templates.
type tree struct {
	timeline template.JS
	pictures []string // scripts that draw pictures
	static   bool     // a page without scripts
	beside   bool     // inside side-by-side columns
	err      error
}

// addScript adds the script of a picture, if it was not added before.
func (t *tree) addScript(script string) {
	if !slices.Contains(t.pictures, script) {
		t.pictures = append(t.pictures, script)
	}
}

// encodeData encodes data for a script element. It escapes <, > and &, so that no name in the data can end the element.
func (t *tree) encodeData(data any) template.JS {
	text, err := json.Marshal(data)
	if err != nil {
		t.err = err
	}
	return template.JS(text)
}

// toneOf returns the CSS class of a tone.
func toneOf(t page.Tone) string {
	return [...]string{page.Plain: "", page.Good: "good", page.Unsure: "unsure", page.Bad: "bad", page.Faint: "faint"}[t]
}

func markOf(b page.Badge) badgeView { return badgeView{toneOf(b.Tone), b.Text} }

// buildSection returns the view of a section; nil if an HTML page shows no part of it.
func (t *tree) buildSection(s page.Section, level int) []sectionView {
	if !s.In.In(page.HTML) {
		return nil
	}
	out := sectionView{Level: level, Beside: s.Beside, Blocks: t.buildBlocks(s.Shown(page.HTML))}
	defer func(was bool) { t.beside = was }(t.beside)
	t.beside = t.beside || s.Beside
	if s.HeadingShown(page.HTML) {
		out.ID, out.Heading, out.Folded, out.Badge, out.Brief = s.ID, s.Heading, s.Folded, markOf(s.Badge), s.Brief
		level++
	}
	for _, sub := range s.Sections {
		out.Sections = append(out.Sections, t.buildSection(sub, level)...)
	}
	if len(out.Blocks)+len(out.Sections) == 0 {
		return nil
	}
	return []sectionView{out}
}

func (t *tree) buildBlocks(blocks []page.Block) []blockView {
	var out []blockView
	for _, b := range blocks {
		if v, ok := t.buildBlock(b); ok {
			out = append(out, v)
		}
	}
	return out
}

func (t *tree) buildBlock(b page.Block) (out blockView, ok bool) {
	switch b := b.(type) {
	case page.Text:
		return blockView{Text: textOf(b)}, b.S != ""
	case page.Lines:
		shown := page.LinesIn(b.Lines, page.HTML)
		return blockView{Lines: &linesView{b.Lead, shown}}, len(shown) > 0
	case page.Table:
		g := tableOf(b)
		if t.beside {
			g.Class, g.Plain = "pairs", true
		}
		return blockView{Table: g}, len(g.Rows) > 0
	case page.List:
		l := t.buildList(b)
		return blockView{List: l}, len(l.Items) > 0
	case page.Chart:
		if b.Figure == nil {
			return blockView{}, false
		}
		drawn := b.Figure()
		chart := drawn.Inline(b.ID)
		if b.Narrow && chart != "" {
			chart = "<div class=\"narrow\">" + drawn.InlineNarrow(b.ID+"-narrow") + "</div><div class=\"broad\">" + chart + "</div>"
		}
		return blockView{Chart: template.HTML(chart), Note: b.Note, Live: t.liveChart(b)}, chart != ""
	case page.Timeline:
		drawn, note := b.Draw()
		t.timeline = t.encodeData(drawn)
		t.addScript("timeline.js")
		return blockView{Timeline: true, Note: note}, true
	}
	return blockView{}, false
}

// liveChart returns the data of a chart that a script draws; nil for other charts.
func (t *tree) liveChart(b page.Chart) *liveView {
	if b.Live == nil || t.static {
		return nil
	}
	data := b.Live()
	if data == nil {
		return nil
	}
	t.addScript(string(b.Kind) + ".js")
	return &liveView{ID: b.ID, Kind: string(b.Kind), Name: b.Name, Data: t.encodeData(data)}
}

func textOf(b page.Text) *textView {
	out := &textView{S: b.S, Code: b.Code}
	switch b.As {
	case page.Lead:
		out.Class = "verdict"
	case page.Banner:
		out.Class, out.Banner = strings.TrimSpace("banner "+toneOf(b.Tone)), true
	case page.Remark:
		out.Class = "meta"
	}
	return out
}

func tableOf(b page.Table) *tableView {
	columns, rows, left := b.For(page.HTML)
	g := &tableView{Name: b.Name, Caption: cmp.Or(b.Caption, b.Name), Folded: b.Folded}
	if left > 0 && b.More != "" {
		g.More = fmt.Sprintf(b.More, left)
	}
	words, sub := true, false
	for _, c := range columns {
		words = words && c.Left
		g.Headed = g.Headed || c.Title != ""
	}
	later := laterColumns(columns)
	for i, c := range columns {
		g.Columns = append(g.Columns, columnView{c, classOf(c, false, later[i])})
	}
	for _, r := range rows {
		row := rowView{}
		switch {
		case r.Sub:
			row.Class, sub = "kernel", true
		case r.Tone == page.Bad:
			row.Class = "failed"
		}
		for i, c := range r.Cells {
			cell := cellView{Cell: c, Class: classOf(columns[i], words, later[i])}
			if c.Unit != "" && !math.IsNaN(c.Value) && !math.IsInf(c.Value, 0) {
				cell.Sort = strconv.FormatFloat(c.Value, 'g', 6, 64)
			}
			if i == 0 && len(c.Text) > cutName {
				cell.Full = c.Text
			}
			row.Cells = append(row.Cells, cell)
		}
		g.Rows = append(g.Rows, row)
	}
	g.Class = "grid"
	if words {
		g.Class += " words"
	}
	if sub {
		g.Class += " stages"
	}
	return g
}

func (t *tree) buildList(b page.List) *listView {
	out := &listView{Class: "outcomes", Ordered: b.Ordered}
	switch {
	case b.Ordered:
		out.Class = "findings"
	case b.Alert:
		out.Class = "warnings"
	}
	shown, _ := b.For(page.HTML)
	for _, it := range shown {
		v := itemView{Item: it, Mark: markOf(it.Badge), Open: t.buildBlocks(page.Section{Blocks: it.More}.Shown(page.HTML))}
		v.Lines = page.LinesIn(it.Lines, page.HTML)
		out.Items = append(out.Items, v)
	}
	return out
}
