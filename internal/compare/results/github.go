package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// githubBench is an entry of one of github-action-benchmark's two files: a list of name, unit and value
// (customSmallerIsBetter or customBiggerIsBetter), or the history data.js. A list has no direction: only the
// workflow file declares it. An entry of the history names its tool, which implies the direction.
type githubBench struct {
	Name  string `json:"name"`
	Unit  string `json:"unit"`
	Value figure `json:"value"`
}

type githubEntry struct {
	Commit struct {
		ID string `json:"id"`
	} `json:"commit"`
	Date  float64       `json:"date"` // milliseconds since 1970
	Tool  string        `json:"tool"`
	Bench []githubBench `json:"benches"`
}

// githubTools maps each tool to the direction by which the action compares it.
var githubTools = map[string]direction{
	"cargo": lowerBetter, "go": lowerBetter, "benchmarkjs": higherBetter, "benchmarkluau": lowerBetter, "pytest": higherBetter,
	"googlecpp": lowerBetter, "catch2": lowerBetter, "julia": lowerBetter, "jmh": lowerBetter, "benchmarkdotnet": lowerBetter,
	"customSmallerIsBetter": lowerBetter, "customBiggerIsBetter": higherBetter,
}

func isGitHub(d jsonValue) bool { return d.hasMembers("name", "unit", "value") }

func isGitHubData(d jsonValue) bool { return d.hasMembers("entries") && d.hasMembers("lastUpdate") }

var githubScript = []byte("window.BENCHMARK_DATA")

// stripScript returns the JSON of data.js, or any other text unchanged.
func stripScript(text []byte) []byte {
	body := bytes.TrimLeft(text, " \t\r\n")
	if !bytes.HasPrefix(body, githubScript) {
		return text
	}
	body = bytes.TrimLeft(body[len(githubScript):], " \t\r\n=")
	value, _ := document.JSONValue(body)
	if len(value) == 0 {
		return text
	}
	return value
}

func readGitHub(p *parsed, d jsonValue) error {
	var b githubBench
	if err := d.decode(&b); err != nil {
		return err
	}
	return p.addGitHub("", &b, undirected, false)
}

// addGitHub adds a figure. A direction declared in the file overrides the unit's direction.
func (p *parsed) addGitHub(suite string, b *githubBench, is direction, declared bool) error {
	if b.Name == "" {
		return fmt.Errorf("a benchmark has no name")
	}
	v, unit, of := convertQuantity(b.Value.value, b.Unit)
	if !declared {
		is = of
	}
	p.addRun(suite+b.Name, unit, is, v)
	return nil
}

// readGitHubData reads the newest commit's entries of each suite, each as a run, and skips older commits.
func readGitHubData(p *parsed, d jsonValue) error {
	var f struct {
		Entries map[string]json.RawMessage `json:"entries"`
	}
	if err := d.decode(&f); err != nil {
		return err
	}
	for _, suite := range slices.Sorted(maps.Keys(f.Entries)) {
		var entries []githubEntry
		if err := d.decodeRaw(f.Entries[suite], &entries); err != nil {
			return fmt.Errorf("suite %s: %w", suite, err)
		}
		if len(entries) == 0 {
			continue
		}
		newest := slices.MaxFunc(entries, func(a, b githubEntry) int { return int(min(max(a.Date-b.Date, -1), 1)) })
		prefix := ""
		if len(f.Entries) > 1 {
			prefix = suite + "/"
		}
		left := 0
		for i := range entries {
			e := &entries[i]
			if e.Commit.ID != newest.Commit.ID || e.Tool != newest.Tool {
				left++
				continue
			}
			if err := p.githubEntry(prefix, e); err != nil {
				return fmt.Errorf("suite %s: %w", suite, err)
			}
		}
		p.setFact("commit", newest.Commit.ID)
		if left > 0 {
			p.addNote("older-entries", fmt.Sprintf("%d older entries of the suite %s are left out; the newest commit is %.12s", left, suite, newest.Commit.ID),
				"give each commit as a file of its own to compare two of them")
		}
	}
	return nil
}

func (p *parsed) githubEntry(prefix string, e *githubEntry) error {
	is, known := githubTools[e.Tool]
	if !known {
		return gpuprof.Errorf(nil, "the tool %q has no direction here", e.Tool).WithFix("give a file of a tool that github-action-benchmark has: %s", strings.Join(slices.Sorted(maps.Keys(githubTools)), ", "))
	}
	p.setEnv("tool", e.Tool)
	for i := range e.Bench {
		b := &e.Bench[i]
		of := is
		if e.Tool == "go" { // the first figure of a line lists all units in its extra text
			b.Unit, _, _ = strings.Cut(strings.ReplaceAll(b.Unit, "\t", " "), " ")
		}
		if _, rate := cutRate(b.Unit); rate && e.Tool == "go" {
			of = higherBetter // MB/s, which go test prints next to the time
		}
		if err := p.addGitHub(prefix, b, of, true); err != nil {
			return err
		}
	}
	return nil
}
