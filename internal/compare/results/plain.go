package results

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// plainLine matches a line "name value unit" of any program. All figures of a name are samples of one process.
var plainLine = lazyregexp.New(`^\s*([A-Za-z_][\w./=+-]*?)[:=]?\s+([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*([A-Za-zµμ][\w/µμ]*)\s*$`)

// plainUnit maps a unit of plain figures to its base unit and the factor to it; a rate "x/s" keeps its name.
func plainUnit(unit string) (scale float64, base string, ok bool) {
	switch unit {
	case "s", "sec", "secs", "second", "seconds":
		return 1, "s", true
	case "ms", "msec", "milliseconds":
		return 1e-3, "s", true
	case "us", "µs", "μs", "usec", "microseconds":
		return 1e-6, "s", true
	case "ns", "nsec", "nanoseconds":
		return 1e-9, "s", true
	case "B", "bytes":
		return 1, "B", true
	case "kB", "KB":
		return 1e3, "B", true
	case "MB":
		return 1e6, "B", true
	case "GB":
		return 1e9, "B", true
	case "KiB":
		return 1 << 10, "B", true
	case "MiB":
		return 1 << 20, "B", true
	case "GiB":
		return 1 << 30, "B", true
	}
	if what, ok := strings.CutSuffix(unit, "/s"); ok && what != "" {
		return 1, unit, true
	}
	return 0, "", false
}

func plainFigure(line []byte) (name string, value float64, unit string, ok bool) {
	m := plainLine.FindSubmatch(line)
	if m == nil {
		return "", 0, "", false
	}
	scale, unit, ok := plainUnit(string(m[3]))
	if !ok {
		return "", 0, "", false
	}
	value, err := strconv.ParseFloat(string(m[2]), 64)
	return string(m[1]), value * scale, unit, err == nil
}

func hasPlainLine(text []byte) bool {
	for line := range bytes.Lines(text) {
		if _, _, _, ok := plainFigure(line); ok {
			return true
		}
	}
	return false
}

// readPlain reads the lines with a figure and skips the program's other output.
func readPlain(text []byte) *parsed {
	p := newParsed(FormatPlain)
	for line := range bytes.Lines(text) {
		name, value, unit, ok := plainFigure(line)
		if !ok {
			continue
		}
		is := guessDirection(unit)
		if i, had := p.index[name]; had && p.Metrics[i].Unit != unit { // figures in the first unit have the name without a unit
			name += " " + unit
		}
		p.addSample(name, unit, is, value)
	}
	return p
}

func isPlain(d jsonValue) bool {
	if len(d.member) == 0 {
		return false
	}
	for _, raw := range d.member {
		var v float64
		if json.Unmarshal(raw, &v) != nil || raw[0] == 'n' {
			return false
		}
	}
	return true
}

// isPlainText reports whether a text is one JSON object of numbers. A line of JSON per training step is no result.
func isPlainText(text []byte) bool {
	if text[0] != '{' {
		return false
	}
	value, rest := document.JSONValue(text)
	if len(bytes.TrimSpace(rest)) > 0 || !json.Valid(value) {
		return false
	}
	docs, err := splitDocuments(value)
	return err == nil && len(docs) == 1 && isPlain(docs[0])
}

// plainSuffix maps suffixes of names to units.
var plainSuffix = []struct{ end, unit string }{
	{"_ns", "ns"}, {"_us", "us"}, {"_ms", "ms"}, {"_s", "s"}, {"_sec", "s"}, {"_seconds", "s"}, {"_bytes", "B"}, {"_mb", "MB"}, {"_mib", "MiB"},
}

// readPlainJSON reads an object of numbers. The suffix of a name ("load_ms") gives the unit; other names have none.
func readPlainJSON(p *parsed, d jsonValue) error {
	var figures map[string]float64
	if err := d.decode(&figures); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(figures)) {
		value, unit, is := figures[name], "", guessDirection(name)
		for _, s := range plainSuffix {
			if is == lowerBetter && strings.HasSuffix(strings.ToLower(name), s.end) {
				scale, base, _ := plainUnit(s.unit)
				value, unit = value*scale, base
				break
			}
		}
		p.addRun(name, unit, is, value)
	}
	return nil
}
