package results

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/outside"
)

type goLine struct {
	pkg, name, cpus, unit string // cpus is the suffix "-8" of the name, "" without one
	value                 float64
}

type goFile struct {
	lines []goLine
	units benchfmt.UnitMetadataMap
	env   map[string][]string
	bad   []string // names of benchmarks that failed
}

// goFacts are the configuration keys that must agree; pkg is part of a benchmark's name instead.
var goFacts = []string{"goos", "goarch", "cpu", "device"}

func hasBenchLine(text []byte) bool {
	return bytes.HasPrefix(text, []byte("Benchmark")) || bytes.Contains(text, []byte("\nBenchmark"))
}

// readGo reads output of go test -bench, of programs that imitate it, and gpuprof's .bench files. Each line is a run.
func readGo(text []byte, name string) (*parsed, error) {
	if err := goFits(text, outside.NewRoom()); err != nil {
		return nil, err
	}
	f := &goFile{env: map[string][]string{}}
	r := benchfmt.NewReader(bytes.NewReader(text), name)
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, fmt.Errorf("line %d: %s", rec.Line, rec.Msg)
		case *benchfmt.Result:
			f.add(rec)
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	f.units = r.Units()
	f.bad = goFailures(text)
	return f.parseLines(), nil
}

// figureBytes is the memory in bytes for one figure of a line, in the worst case with a name of its own.
const figureBytes = 400

// goFits reserves memory for the lines before they are read: for every figure, and once for every configuration key.
func goFits(text []byte, room *outside.Room) error {
	keys := map[string]bool{}
	for line := range bytes.Lines(text) {
		cost := 0
		switch key, _, ok := bytes.Cut(line, []byte(":")); {
		case bytes.HasPrefix(line, []byte("Benchmark")), bytes.HasPrefix(line, []byte("Unit ")):
			cost = figureBytes * (len(bytes.Fields(line)) / 2)
		case ok && !bytes.ContainsAny(key, " \t") && !keys[string(key)]:
			keys[string(key)] = true
			cost = figureBytes + 3*len(line)
		}
		if err := room.Take(int64(cost)); err != nil {
			return err
		}
	}
	return nil
}

func (f *goFile) add(rec *benchfmt.Result) {
	for _, k := range goFacts {
		if v := rec.GetConfig(k); v != "" && !slices.Contains(f.env[k], v) {
			f.env[k] = append(f.env[k], v)
		}
	}
	name, cpus := string(rec.Name), ""
	_, parts := rec.Name.Parts()
	if n := len(parts); n > 0 && bytes.HasPrefix(parts[n-1], []byte("-")) {
		cpus = string(parts[n-1])
		name = strings.TrimSuffix(name, cpus)
	}
	for _, v := range rec.Values {
		value, unit := convertToSeconds(v.Value, v.Unit)
		f.lines = append(f.lines, goLine{rec.GetConfig("pkg"), name, cpus, unit, value})
	}
}

// secondsOf lists the units of time that benchfmt leaves unconverted, in seconds; ns/op only for a value of 0.
var secondsOf = map[string]float64{"ns/op": 1e-9, "us/op": 1e-6, "µs/op": 1e-6, "μs/op": 1e-6, "ms/op": 1e-3, "s/op": 1}

// convertToSeconds converts a time per operation to seconds, so that all units give one metric.
func convertToSeconds(value float64, unit string) (float64, string) {
	if seconds, ok := secondsOf[unit]; ok {
		return value * seconds, "sec/op"
	}
	return value, unit
}

var goFailed = lazyregexp.New(`(?m)^\s*--- FAIL: (Benchmark\S+)`)

func goFailures(text []byte) []string {
	var out []string
	for _, m := range goFailed.FindAllSubmatch(text, -1) {
		out = append(out, strings.TrimPrefix(string(m[1]), "Benchmark"))
	}
	if bytes.HasPrefix(text, []byte("panic: ")) || bytes.Contains(text, []byte("\npanic: ")) {
		out = append(out, "a panic")
	}
	return out
}

func (f *goFile) parseLines() *parsed {
	p := newParsed(FormatGo)
	p.setFact("tool", "go test")
	for k, vs := range f.env {
		for _, v := range vs {
			p.setEnv(k, v)
		}
	}
	cpus, prefix := f.commonCPUs(), f.ambiguousNames()
	if cpus != "" {
		p.setEnv("gomaxprocs", strings.TrimPrefix(cpus, "-"))
	}
	for _, l := range f.lines {
		name := l.name
		if prefix[l.name] && l.pkg != "" {
			name = l.pkg + "." + name
		}
		if l.cpus != cpus {
			name += l.cpus
		}
		if l.unit != "sec/op" {
			name += ":" + l.unit
		}
		is := guessDirection(l.unit)
		if better := f.units.GetBetter(l.unit); better != 0 {
			is = map[bool]direction{true: higherBetter, false: lowerBetter}[better > 0]
		}
		m := p.addRun(name, goUnit(l.unit), is, l.value)
		m.Exact, m.Guessed = f.units.GetAssumption(l.unit) == benchmath.AssumeExact, goCounts[l.unit]
	}
	for _, name := range f.bad {
		p.addFailure(name, "go test reports it as failed")
	}
	return p
}

// goCounts are units of counters.
var goCounts = map[string]bool{"allocs/op": true, "launches/op": true, "sync-points/op": true, "bytes-h2d-pageable/op": true, "allocations/op": true}

// goUnit returns gpuprof's spelling of a unit. A unit that ends in sec/op, such as device-sec/op, is a time in
// seconds.
func goUnit(unit string) string {
	if strings.HasSuffix(unit, "sec/op") {
		return "s"
	}
	return unit
}

// commonCPUs returns the thread count in which all names end. It returns "" if the counts differ; they then stay in the
// names.
func (f *goFile) commonCPUs() string {
	for _, l := range f.lines {
		if l.cpus != f.lines[0].cpus {
			return ""
		}
	}
	if len(f.lines) == 0 {
		return ""
	}
	return f.lines[0].cpus
}

// ambiguousNames returns the names that several packages use.
func (f *goFile) ambiguousNames() map[string]bool {
	pkg, out := map[string]string{}, map[string]bool{}
	for _, l := range f.lines {
		if p, ok := pkg[l.name]; ok && p != l.pkg {
			out[l.name] = true
		}
		pkg[l.name] = l.pkg
	}
	return out
}

// testEvents extracts the text from go test -json output, nil for any other text. Packages run concurrently and
// their events mix; testEvents sorts them by package. It ignores lines that are not JSON (build errors).
func testEvents(text []byte) []byte {
	if !bytes.HasPrefix(text, []byte("{")) || !bytes.Contains(text, []byte(`"Action"`)) {
		return nil
	}
	out := map[string]*strings.Builder{}
	sc := bufio.NewScanner(bytes.NewReader(text))
	sc.Buffer(nil, 16<<20)
	for sc.Scan() {
		var e struct{ Action, Package, Output string }
		if !bytes.HasPrefix(sc.Bytes(), []byte("{")) {
			continue
		}
		if json.Unmarshal(sc.Bytes(), &e) != nil || e.Action == "" {
			return nil
		}
		if e.Action == "output" {
			if out[e.Package] == nil {
				out[e.Package] = &strings.Builder{}
			}
			out[e.Package].WriteString(e.Output)
		}
	}
	if sc.Err() != nil || len(out) == 0 {
		return nil
	}
	var all strings.Builder
	for _, k := range slices.Sorted(maps.Keys(out)) {
		// Separate the packages: one without configuration must not inherit the previous one's.
		all.WriteString("\npkg:\n")
		all.WriteString(out[k].String())
	}
	return []byte(all.String())
}
