package results

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// nvbenchFile is a file of NVBench --json or --jsonbin, file version 1. Each benchmark has a state per point of its
// axes, and each state has tagged summaries. Times are in seconds; all named values are JSON strings. With
// --jsonbin a summary tagged nv/json/bin:MEASUREMENT names a file next to the JSON file that holds every sample as
// a little-endian float32.
type nvbenchFile struct {
	Meta struct {
		Version struct {
			JSON struct {
				Major int    `json:"major"`
				Text  string `json:"string"`
			} `json:"json"`
			NVBench struct {
				Text string `json:"string"`
			} `json:"nvbench"`
		} `json:"version"`
	} `json:"meta"`
	Devices []struct {
		ID   int    `json:"id"`
		Name string `json:"name"`
		SM   int    `json:"sm_version"`
		ECC  *bool  `json:"ecc_state"`
	} `json:"devices"`
	Benchmarks []struct {
		Name    string         `json:"name"`
		Devices []int          `json:"devices"`
		States  []nvbenchState `json:"states"`
	} `json:"benchmarks"`
}

type nvbenchState struct {
	Name       string           `json:"name"`
	Device     *int             `json:"device"`
	Axes       []nvbenchValue   `json:"axis_values"`
	Summaries  []nvbenchSummary `json:"summaries"`
	Skipped    bool             `json:"is_skipped"`
	SkipReason string           `json:"skip_reason"`
}

type nvbenchSummary struct {
	Tag  string         `json:"tag"`
	Data []nvbenchValue `json:"data"`
}

type nvbenchValue struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value any    `json:"value"`
}

const nvbenchMajor = 1

// nvbenchTimes are the measurements read from a state, the main one first. Rates (nv/cold/bw/…) are left out:
// NVBench computes them as a constant over the mean time.
var nvbenchTimes = []struct{ samples, median, mean, suffix string }{
	{"nv/cold/sample_times", "nv/cold/time/gpu/median", "nv/cold/time/gpu/mean", ""},
	{"nv/cpu_only/sample_times", "nv/cpu_only/time/cpu/median", "nv/cpu_only/time/cpu/mean", ""},
	{"", "", "nv/batch/time/gpu/mean", ":batch"},
	{"", "nv/cold/time/cpu/median", "nv/cold/time/cpu/mean", ":cpu_time"},
}

func isNVBench(d jsonValue) bool {
	return d.hasMembers("benchmarks") && (d.hasMembers("devices") || d.hasMembers("meta"))
}

func readNVBench(p *parsed, d jsonValue) error {
	var f nvbenchFile
	if err := d.decode(&f); err != nil {
		return err
	}
	if v := f.Meta.Version.JSON; v.Major > nvbenchMajor {
		return gpuprof.Errorf(nil, "file version %s is newer than %d.x, the newest that this gpuprof reads", v.Text, nvbenchMajor).WithFix("update gpuprof")
	}
	p.setFact("tool", "NVBench "+f.Meta.Version.NVBench.Text)
	for _, b := range f.Benchmarks {
		for i := range b.States {
			st := &b.States[i]
			name := nvbenchName(b.Name, st, len(b.Devices) > 1)
			switch {
			case st.Skipped && strings.HasPrefix(st.SkipReason, "Unexpected error"): // NVBench marks an exception as skipped
				p.addFailure(name, st.SkipReason)
				continue
			case st.Skipped:
				p.addSkip(name, st.SkipReason)
				continue
			}
			p.nvbenchDevice(&f, st)
			if err := p.nvbenchState(name, st, d); err != nil {
				return fmt.Errorf("benchmark %s: %w", name, err)
			}
		}
	}
	return nil
}

func (p *parsed) nvbenchDevice(f *nvbenchFile, st *nvbenchState) {
	for _, d := range f.Devices {
		if st.Device == nil || d.ID != *st.Device {
			continue
		}
		p.setEnv("device", d.Name)
		if d.SM > 0 {
			p.setEnv("compute_capability", fmt.Sprintf("%d.%d", d.SM/100, d.SM%100/10))
		}
		if d.ECC != nil {
			p.setEnv("ecc", map[bool]string{true: "on", false: "off"}[*d.ECC])
		}
	}
}

// nvbenchName formats "bench[Axis=value Other=value]", with the device if the benchmark ran on several devices.
func nvbenchName(bench string, st *nvbenchState, several bool) string {
	var parts []string
	for _, a := range st.Axes {
		parts = append(parts, a.Name+"="+fmt.Sprint(a.Value))
	}
	if several && st.Device != nil {
		parts = append(parts, "device="+strconv.Itoa(*st.Device))
	}
	bench = cmp.Or(bench, "benchmark")
	if len(parts) == 0 {
		return bench
	}
	return bench + "[" + strings.Join(parts, " ") + "]"
}

// nvbenchState adds the times of a state: their samples, else the median, which newer versions write, else the mean.
func (p *parsed) nvbenchState(name string, st *nvbenchState, d jsonValue) error {
	found := false
	for _, m := range nvbenchTimes {
		samples, err := p.nvbenchSamples(m.samples, st, d)
		if err != nil {
			return err
		}
		if s := cmp.Or(st.findSummary(m.median), st.findSummary(m.mean)); samples == nil && s != nil {
			v, err := s.valueNumber("value")
			if err != nil {
				return fmt.Errorf("%s: %w", s.Tag, err)
			}
			samples = []float64{v}
		}
		if samples == nil {
			continue
		}
		found = true
		if r := p.addRun(name+m.suffix, "s", lowerBetter, samples...); len(r.Runs) > 1 {
			return errors.New("it is there twice with the same axis values")
		}
	}
	if !found {
		p.addFailure(name, "the file has no time of it")
	}
	return nil
}

func (st *nvbenchState) findSummary(tag string) *nvbenchSummary {
	for i := range st.Summaries {
		if tag != "" && st.Summaries[i].Tag == tag {
			return &st.Summaries[i]
		}
	}
	return nil
}

// valueText returns a named value as written, "" if it does not exist.
func (s *nvbenchSummary) valueText(name string) string {
	for _, v := range s.Data {
		if v.Name == name && v.Value != nil {
			return fmt.Sprint(v.Value)
		}
	}
	return ""
}

// valueNumber returns a named value as a number, NaN if it is missing. NVBench writes numbers as text; any other text
// is an error.
func (s *nvbenchSummary) valueNumber(name string) (float64, error) {
	i := slices.IndexFunc(s.Data, func(v nvbenchValue) bool { return v.Name == name })
	if i < 0 {
		return math.NaN(), nil
	}
	text, isText := s.Data[i].Value.(string)
	v, err := strconv.ParseFloat(s.valueText(name), 64)
	switch {
	case err == nil:
		return v, nil
	case isText && errors.Is(err, strconv.ErrSyntax):
		return 0, fmt.Errorf("%q is not a number", document.CleanText(text))
	}
	return math.NaN(), nil
}

// samplesShare is the memory for samples, as a multiple of their file's size.
const samplesShare = 2

// nvbenchSamples reads the sample file of a measurement; nil without one.
func (p *parsed) nvbenchSamples(measurement string, st *nvbenchState, d jsonValue) ([]float64, error) {
	s := st.findSummary("nv/json/bin:" + measurement)
	if measurement == "" || s == nil || s.valueText("filename") == "" {
		return nil, nil
	}
	side := s.valueText("filename")
	raw, err := readSide(d.path, side, d.read)
	if errors.Is(err, fs.ErrNotExist) {
		p.addNote("no-samples", "the sample files of "+filepath.Base(d.path)+" are not beside it: one figure per benchmark stands for its samples", "copy the -bin directory along with the file")
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("its sample file %s: %w", side, err)
	}
	want, err := strconv.Atoi(s.valueText("size"))
	switch {
	case len(raw)%4 != 0:
		return nil, fmt.Errorf("its sample file %s has %d bytes, which is no whole number of float32", side, len(raw))
	case err == nil && want != len(raw)/4:
		return nil, gpuprof.Errorf(nil, "its sample file %s holds %d samples and the summary says %d, so the file was cut or is another run's", side, len(raw)/4, want)
	case len(raw) == 0:
		return nil, fmt.Errorf("its sample file %s is empty", side)
	}
	if err := d.room.Take(samplesShare * int64(len(raw))); err != nil {
		return nil, err
	}
	out := make([]float64, len(raw)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return out, nil
}

// readSide reads a sample file by its name relative to the JSON file. Older versions wrote an absolute name or one
// relative to their working folder; readSide then uses the last two parts of the name. It reads no other folder, so
// that a result file cannot make gpuprof read arbitrary files.
func readSide(file, side string, read reader) ([]byte, error) {
	side = path.Clean(strings.ReplaceAll(side, `\`, "/"))
	dir := filepath.Dir(file)
	var names []string
	if filepath.IsLocal(filepath.FromSlash(side)) {
		names = append(names, side)
	}
	if short := path.Join(path.Base(path.Dir(side)), path.Base(side)); filepath.IsLocal(filepath.FromSlash(short)) && short != side {
		names = append(names, short)
	}
	for _, n := range names {
		raw, err := read(filepath.Join(dir, filepath.FromSlash(n)))
		if !errors.Is(err, fs.ErrNotExist) {
			return raw, err
		}
	}
	return nil, fs.ErrNotExist
}
