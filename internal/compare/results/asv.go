package results

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// asvFile is a result file of airspeed velocity, version 2: .asv/results/MACHINE/COMMIT-ENV.json. A benchmark's row
// has its columns in the order of result_columns; a column has one value per combination of the benchmark's
// parameters. null marks a failure, NaN a combination that the benchmark left out; NullNumbers has replaced both by
// null.
type asvFile struct {
	Columns []string                     `json:"result_columns"`
	Results map[string][]json.RawMessage `json:"results"`
	Params  map[string]any               `json:"params"` // of the machine
	Commit  string                       `json:"commit_hash"`
	Python  string                       `json:"python"`
}

// isASV reports whether airspeed velocity wrote the file. Its results are an object by benchmark.
func isASV(d jsonValue) bool {
	return d.hasMembers("results") && (d.hasMembers("commit_hash") || d.hasMembers("result_columns"))
}

// asvKind returns the unit and direction that asv derives from the prefix of a benchmark's name. A track_ benchmark
// has its unit in another file, and no direction.
func asvKind(name string) (unit string, is direction) {
	last := name[strings.LastIndexByte(name, '.')+1:]
	for prefix, kind := range map[string]string{"time_": "s", "timeraw_": "s", "mem_": "B", "peakmem_": "B", "Time": "s", "TimeRaw": "s", "Mem": "B", "PeakMem": "B"} {
		if strings.HasPrefix(last, prefix) {
			return kind, lowerBetter
		}
	}
	return "", undirected
}

func readASV(p *parsed, d jsonValue) error {
	if !d.hasMembers("result_columns") {
		return gpuprof.Errorf(nil, "it is of an asv before 0.5, without result_columns").WithFix("convert it with: asv update")
	}
	var f asvFile
	if err := d.decode(&f); err != nil {
		return err
	}
	p.setFact("tool", "asv")
	for _, key := range []string{"cpu", "arch", "machine"} {
		if v, ok := f.Params[key]; ok && v != nil {
			p.setEnv(key, fmt.Sprint(v))
		}
	}
	p.setFact("python", f.Python)
	p.setFact("commit", f.Commit)
	for _, name := range slices.Sorted(maps.Keys(f.Results)) {
		row := map[string]json.RawMessage{}
		for i, raw := range f.Results[name] {
			if i < len(f.Columns) {
				row[f.Columns[i]] = raw
			}
		}
		if err := p.asvRow(name, row, d); err != nil {
			return fmt.Errorf("benchmark %s: %w", name, err)
		}
	}
	return nil
}

// asvRow adds the figures of one benchmark, one series per combination of its parameters.
func (p *parsed) asvRow(name string, row map[string]json.RawMessage, d jsonValue) error {
	var params [][]string
	var values []*figure
	var samples [][]figure
	for column, into := range map[string]any{"params": &params, "result": &values, "samples": &samples} {
		if raw := row[column]; raw != nil {
			if err := d.decodeRaw(raw, into); err != nil {
				return fmt.Errorf("%s: %w", column, err)
			}
		}
	}
	if len(values) == 0 {
		p.addFailure(name, "asv has no result of it")
		return nil
	}
	if n := countCombinations(params, len(values)); n != len(values) {
		return fmt.Errorf("it has %d results for %d combinations of parameters", len(values), n)
	}
	unit, is := asvKind(name)
	for i, v := range values {
		full := name + asvParams(params, i)
		if v == nil {
			p.addSkip(full, "asv has no figure of it: it failed or left itself out")
			continue
		}
		data := []figure{*v}
		if i < len(samples) && len(samples[i]) > 0 {
			data = samples[i]
		} else if unit == "s" {
			p.addNote("no-samples", "asv kept no single samples, only medians", "run it with asv run --record-samples")
		}
		p.addRun(full, unit, is, valuesOf(data, 1)...)
	}
	return nil
}

// countCombinations returns the number of combinations of all parameters, at most limit + 1.
func countCombinations(params [][]string, limit int) int {
	n := 1
	for _, values := range params {
		if n *= len(values); n > limit {
			return limit + 1
		}
	}
	return n
}

// asvParams formats the parameters of the i-th combination; the last parameter changes fastest.
func asvParams(params [][]string, i int) string {
	if len(params) == 0 {
		return ""
	}
	words := make([]string, len(params))
	for k := len(params) - 1; k >= 0; k-- {
		n := len(params[k])
		words[k], i = strings.Trim(params[k][i%n], `'"`), i/n
	}
	return document.MaskText("(" + strings.Join(words, ", ") + ")")
}
