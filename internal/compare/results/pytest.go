package results

import (
	"cmp"
	"fmt"
)

// pytestFile is a file of pytest-benchmark --benchmark-json or --benchmark-save: times in seconds per round,
// averaged over the round's iterations. stats.data has the rounds if they were kept.
type pytestFile struct {
	Version string `json:"version"`
	Machine struct {
		Machine string `json:"machine"`
		Python  string `json:"python_implementation"`
		Version string `json:"python_version"`
		CPU     struct {
			Brand string `json:"brand_raw"`
			Old   string `json:"brand"` // the field's name before py-cpuinfo 5.0
		} `json:"cpu"`
	} `json:"machine_info"`
	Benchmarks []struct {
		Name     string `json:"name"`
		FullName string `json:"fullname"`
		HasError bool   `json:"has_error"` // up to pytest-benchmark 3.x
		Stats    *struct {
			Data   []figure `json:"data"`
			Median figure   `json:"median"`
			Mean   figure   `json:"mean"`
		} `json:"stats"`
	} `json:"benchmarks"`
}

func isPytest(d jsonValue) bool { return d.hasMembers("benchmarks", "machine_info") }

func readPytest(p *parsed, d jsonValue) error {
	var f pytestFile
	if err := d.decode(&f); err != nil {
		return err
	}
	p.setFact("tool", "pytest-benchmark "+f.Version)
	p.setEnv("cpu", f.Machine.CPU.Brand+f.Machine.CPU.Old)
	p.setEnv("arch", f.Machine.Machine)
	p.setFact("python", f.Machine.Python+" "+f.Machine.Version)
	for i, b := range f.Benchmarks {
		name := cmp.Or(b.FullName, b.Name)
		if name == "" {
			return fmt.Errorf("benchmark %d has no name", i+1)
		}
		if b.HasError {
			p.addFailure(name, "the test failed")
			continue
		}
		if b.Stats == nil {
			return fmt.Errorf("benchmark %s has no stats", name)
		}
		data := b.Stats.Data
		if len(data) == 0 {
			one := cmp.Or(b.Stats.Median, b.Stats.Mean)
			if !one.set {
				return fmt.Errorf("benchmark %s has neither rounds nor a median", name)
			}
			data = []figure{one}
			p.addNote("no-samples", "pytest-benchmark kept no single rounds, only medians", "write the file with --benchmark-json FILE, or save with --benchmark-save-data")
		}
		if m := p.addRun(name, "s", lowerBetter, valuesOf(data, 1)...); len(m.Runs) > 1 {
			return fmt.Errorf("benchmark %s is there twice", name)
		}
	}
	return nil
}
