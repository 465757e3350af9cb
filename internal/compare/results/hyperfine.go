package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/document"
)

// hyperfineFile is a file of hyperfine --export-json: an object per command, times in seconds, one process each.
type hyperfineFile struct {
	Results []hyperfineCommand `json:"results"`
}

type hyperfineCommand struct {
	Command    string         `json:"command"`
	Parameters map[string]any `json:"parameters"` // values are texts or numbers
	Median     figure         `json:"median"`
	Mean       figure         `json:"mean"`
	Times      []figure       `json:"times"`
	ExitCodes  []*int         `json:"exit_codes"`
}

// displayName returns the command or its --command-name, followed by the parameters that it does not contain; secrets
// are masked.
func (c *hyperfineCommand) displayName() string {
	var missing []string
	for _, k := range slices.Sorted(maps.Keys(c.Parameters)) {
		if v := fmt.Sprint(c.Parameters[k]); !strings.Contains(c.Command, v) {
			missing = append(missing, k+"="+v)
		}
	}
	return strings.TrimSpace(document.MaskText(c.Command + " " + strings.Join(missing, " ")))
}

func isHyperfine(d jsonValue) bool {
	return d.hasMembers("results") && !d.hasMembers("schema_version") && !isASV(d)
}

func readHyperfine(p *parsed, d jsonValue) error {
	var f hyperfineFile
	if err := d.decode(&f); err != nil {
		return err
	}
	p.setFact("tool", "hyperfine")
	seen := map[string]int{}
	for i, r := range f.Results {
		name := cmp.Or(r.displayName(), "command "+strconv.Itoa(i+1))
		if seen[name]++; seen[name] > 1 {
			name += "#" + strconv.Itoa(seen[name])
		}
		if why := describeExit(r.ExitCodes); why != "" {
			p.addFailure(name, why)
			continue
		}
		if len(r.Times) == 0 {
			one := cmp.Or(r.Median, r.Mean)
			if !one.set {
				return fmt.Errorf("command %q has no times", name)
			}
			p.addNote("no-samples", "the file has no single times of "+name+", only a median, which counts as one run", "export again with hyperfine --export-json")
			r.Times = []figure{one}
		}
		zeros := 0
		for _, t := range r.Times {
			p.addRun(name, "s", lowerBetter, t.value)
			if t.value == 0 {
				zeros++
			}
		}
		if zeros > 0 {
			p.addNote("zero-times", fmt.Sprintf("%d of %d times of %s are 0: hyperfine subtracts the start of the shell, which took as long", zeros, len(r.Times), name),
				"run it without a shell (hyperfine -N), or let the command do more")
		}
	}
	return nil
}

// describeExit describes the failure of a command timed with --ignore-failure. A null code is a death by signal.
func describeExit(codes []*int) string {
	for i, c := range codes {
		if c == nil {
			return fmt.Sprintf("run %d was killed by a signal", i+1)
		}
		if *c != 0 {
			return fmt.Sprintf("run %d ended with exit code %d", i+1, *c)
		}
	}
	return ""
}
