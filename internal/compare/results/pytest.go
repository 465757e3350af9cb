package results

import (
	"cmp"
	"fmt"
)

// pytest-benchmark --benchmark-json, or a file of --benchmark-save: times in
// seconds a round, an average over the round's iterations. stats.data holds
// the rounds when they were kept.
type pytestFile struct {
	Version string `json:"version"`
	Machine struct {
		Machine string `json:"machine"`
		Python  string `json:"python_implementation"`
		Version string `json:"python_version"`
		CPU     struct {
			Brand string `json:"brand_raw"`
			Old   string `json:"brand"` // as py-cpuinfo called it before 5.0
		} `json:"cpu"`
	} `json:"machine_info"`
	Benchmarks []struct {
		Name     string `json:"name"`
		FullName string `json:"fullname"`
		HasError bool   `json:"has_error"` // up to 3.x
		Stats    *struct {
			Data   []figure `json:"data"`
			Median figure   `json:"median"`
			Mean   figure   `json:"mean"`
		} `json:"stats"`
	} `json:"benchmarks"`
}

func isPytest(d jsonValue) bool { return d.has("benchmarks", "machine_info") }

func readPytest(d jsonValue) (*parsed, error) {
	var f pytestFile
	if err := d.decode(&f); err != nil {
		return nil, err
	}
	p := newParsed("pytest-benchmark")
	p.tool = "pytest-benchmark " + f.Version
	p.hard("cpu", f.Machine.CPU.Brand+f.Machine.CPU.Old)
	p.hard("arch", f.Machine.Machine)
	p.soft("python", f.Machine.Python+" "+f.Machine.Version)
	for i, b := range f.Benchmarks {
		name := cmp.Or(b.FullName, b.Name)
		if name == "" {
			return nil, fmt.Errorf("benchmark %d has no name", i+1)
		}
		if b.HasError {
			p.fail(name, "the test failed")
			continue
		}
		if b.Stats == nil {
			return nil, fmt.Errorf("benchmark %s has no stats", name)
		}
		data := b.Stats.Data
		if len(data) == 0 {
			one := cmp.Or(b.Stats.Median, b.Stats.Mean)
			if !one.set {
				return nil, fmt.Errorf("benchmark %s has neither rounds nor a median", name)
			}
			data = []figure{one}
			p.note("no-samples", "pytest-benchmark kept no single rounds, only medians", "write the file with --benchmark-json FILE, or save with --benchmark-save-data")
		}
		ts, err := times(data)
		if err != nil {
			return nil, fmt.Errorf("benchmark %s: %w", name, err)
		}
		if len(p.at(name, "s").runs) > 0 {
			return nil, fmt.Errorf("benchmark %s is there twice", name)
		}
		p.at(name, "s").run(ts...)
	}
	return p, nil
}
