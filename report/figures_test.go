package report_test

import (
	"fmt"
	"html"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// figures are what a format prints, by row and column: "radial", "exposed": "1.62 ms".
type figures map[[2]string]string

// The columns that formats name differently, by the name used here.
var columnNames = map[string]string{
	"95 %": "95 % interval", "setting": "knob",
}

// add keeps a row's cells. A row that comes twice (a kernel of two stages) is
// ambiguous and left out.
func (f figures) add(head, cells []string, twice map[string]bool) {
	if len(cells) != len(head) || len(cells) < 2 {
		return
	}
	row := plain(cells[0])
	for i := 1; i < len(head); i++ {
		column := strings.ToLower(plain(head[i]))
		if column == "spread" { // a drawing, as wide as there is room for
			continue
		}
		if c, ok := columnNames[column]; ok {
			column = c
		}
		key := [2]string{row, column}
		if _, there := f[key]; there || twice[row+"\x00"+column] {
			twice[row+"\x00"+column] = true
			delete(f, key)
			continue
		}
		f[key] = plain(cells[i])
	}
}

// plain is a cell without the format's own writing: escapes, the x of a ratio, how
// an interval joins its ends.
func plain(s string) string {
	s = strings.NewReplacer("\u00a0", " ", "\u202f", " ", `\_`, "_", `\*`, "*", `\[`, "[", `\]`, "]", "`", "", "**", "").Replace(html.UnescapeString(s))
	s = regexp.MustCompile(`^x(\d)`).ReplaceAllString(strings.TrimSpace(s), "$1")
	s = regexp.MustCompile(`([0-9.]+)-([0-9.]+)`).ReplaceAllString(s, "$1 to $2")
	return strings.Join(strings.Fields(s), " ")
}

// ofTable reads the tables of a terminal: columns are two blanks or more apart.
func ofTable(text string) figures {
	out, twice, head := figures{}, map[string]bool{}, []string(nil)
	gap := regexp.MustCompile(` {2,}`)
	for line := range strings.Lines(text) {
		cells := gap.Split(strings.TrimSpace(line), -1)
		switch {
		case strings.TrimSpace(line) == "":
			head = nil
		case head == nil && slices.Contains([]string{"stage", "metric", "kernel", "of the mean step", "device", "rank", "knob", "id"}, cells[0]):
			head = cells
		case head != nil:
			out.add(head, cells, twice)
		case len(cells) == 2: // "step   12.2 ms (95 % …)"
			value, remark, _ := strings.Cut(cells[1], " (")
			out.add([]string{"", "value", "remark"}, []string{cells[0], value, strings.TrimSuffix(remark, ")")}, twice)
		}
	}
	return out
}

// ofMarkdown reads pipe tables.
func ofMarkdown(text string) figures {
	out, twice, head := figures{}, map[string]bool{}, []string(nil)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			head = nil
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		switch {
		case strings.Contains(line, "| :--") || strings.Contains(line, "| --"):
		case head == nil:
			head = cells
		case strings.TrimSpace(head[1]) == "kernel": // its stage is the first column
			out.add(head[1:], cells[1:], twice)
		default:
			out.add(head, cells, twice)
		}
	}
	return out
}

var (
	htmlTable = regexp.MustCompile(`(?s)<table.*?</table>`)
	htmlRow   = regexp.MustCompile(`(?s)<tr.*?</tr>`)
	htmlCell  = regexp.MustCompile(`(?s)<t[hd][^>]*>(.*?)</t[hd]>`)
	htmlNote  = regexp.MustCompile(`(?s)<span class="note">.*?</span>`)
	htmlTag   = regexp.MustCompile(`(?s)<[^>]*>`)
)

// ofHTML reads the tables of a page.
func ofHTML(text string) figures {
	out, twice := figures{}, map[string]bool{}
	for _, t := range htmlTable.FindAllString(text, -1) {
		var head []string
		for _, r := range htmlRow.FindAllString(t, -1) {
			var cells []string
			for _, c := range htmlCell.FindAllStringSubmatch(r, -1) {
				cells = append(cells, htmlTag.ReplaceAllString(htmlNote.ReplaceAllString(c[1], ""), ""))
			}
			if head == nil {
				head = cells
				continue
			}
			out.add(head, cells, twice)
		}
	}
	return out
}

// agree wants several formats to print the same and returns how many figures at
// least two of them have.
func agree(t *testing.T, name string, formats map[string]figures) (shared int) {
	t.Helper()
	for _, d := range disagreements(formats) {
		t.Errorf("%s: %s", name, d)
	}
	seen := map[[2]string]int{}
	for _, f := range formats {
		for k := range f {
			if seen[k]++; seen[k] == 2 {
				shared++
			}
		}
	}
	return shared
}

// disagreements says which figures read differently in two formats.
func disagreements(formats map[string]figures) (out []string) {
	by := map[[2]string]map[string]string{}
	for format, f := range formats {
		for k, v := range f {
			if v == "" || v == "-" {
				continue
			}
			if by[k] == nil {
				by[k] = map[string]string{}
			}
			by[k][format] = v
		}
	}
	for k, texts := range by {
		values := slices.Collect(maps.Values(texts))
		if !slices.ContainsFunc(values, func(v string) bool { return !sameFigure(v, values[0]) }) {
			continue
		}
		out = append(out, fmt.Sprintf("%s of %s reads %v", k[1], k[0], texts))
	}
	return out
}

// sameFigure is equal text, or a longer spelling of it: one format has room for
// more digits, for a remark or for a longer name.
func sameFigure(a, b string) bool {
	if n := min(len(strings.TrimSuffix(a, "…")), len(strings.TrimSuffix(b, "…"))); (strings.HasSuffix(a, "…") || strings.HasSuffix(b, "…")) && a[:n] == b[:n] {
		return true
	}
	if a == b || strings.HasPrefix(a, b+" ") || strings.HasPrefix(b, a+" ") {
		return true
	}
	x, okX := quantity(a)
	y, okY := quantity(b)
	return okX && okY && math.Abs(x-y) <= 0.006*math.Max(math.Abs(x), math.Abs(y)) // three digits
}

var prefixes = map[string]float64{"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

// quantity is a number of seconds, or of whatever the unit is.
func quantity(s string) (float64, bool) {
	number, unit, _ := strings.Cut(strings.TrimPrefix(s, "+"), " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || strings.ContainsAny(unit, " ") {
		return 0, false
	}
	if p, ok := prefixes[unit]; ok {
		v *= p
	}
	return v, true
}
