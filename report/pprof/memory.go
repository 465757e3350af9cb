package pprof

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/pprof/profile"

	"github.com/gpuprof/gpuprof/internal/memsnap"
	"github.com/gpuprof/gpuprof/report/internal/view"
	"github.com/gpuprof/gpuprof/report/runfile"
)

// WriteMemory writes a gzip-compressed profile.proto of live memory by allocating stack: inuse_space in bytes and
// inuse_objects, at each device's peak or at the requested time. Labels have the category, and the device if there are
// several. tool is gpuprof's version.
func WriteMemory(w io.Writer, a *memsnap.Analysis, tool string) error {
	b := &memoryBuilder{functions: map[[2]string]*profile.Function{}, locations: map[memsnap.Frame]*profile.Location{}, p: &profile.Profile{
		SampleType:        []*profile.ValueType{{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		DefaultSampleType: "inuse_space",
		Comments:          []string{runfile.Marker + " " + view.Cut(tool, 40)},
	}}
	for _, in := range a.Inputs {
		b.p.Comments = append(b.p.Comments, "memory snapshot "+view.Cut(in.Path, 200))
	}
	for i := range a.Devices {
		b.add(&a.Devices[i], len(a.Devices) > 1)
	}
	if err := b.p.CheckValid(); err != nil {
		return fmt.Errorf("building the profile: %w", err)
	}
	return b.p.Write(w)
}

type memoryBuilder struct {
	p         *profile.Profile
	functions map[[2]string]*profile.Function
	locations map[memsnap.Frame]*profile.Location
}

func (b *memoryBuilder) add(d *memsnap.Device, several bool) {
	m := &d.Peak
	if d.At != nil {
		m = &d.At.Moment
	}
	for _, h := range m.Stacks {
		s := &profile.Sample{Value: []int64{int64(h.Blocks), h.Bytes}, Label: map[string][]string{"category": {h.Category.String()}}}
		if several {
			s.Label["device"] = []string{fmt.Sprintf("%d of file %d", d.ID, d.Input+1)}
		}
		for _, f := range d.Replay.S.Stack(h.Stack) {
			if !f.Machinery() {
				s.Location = append(s.Location, b.addLocation(f))
			}
		}
		if len(s.Location) == 0 {
			s.Location = []*profile.Location{b.addLocation(memsnap.Frame{Name: "(no frame: " + h.Category.String() + ")"})}
		}
		b.p.Sample = append(b.p.Sample, s)
	}
}

func (b *memoryBuilder) addLocation(f memsnap.Frame) *profile.Location {
	if l := b.locations[f]; l != nil {
		return l
	}
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Line: []profile.Line{{Function: b.addFunction(f), Line: int64(f.Line)}}}
	b.locations[f], b.p.Location = l, append(b.p.Location, l)
	return l
}

func (b *memoryBuilder) addFunction(f memsnap.Frame) *profile.Function {
	key := [2]string{f.Name, f.File}
	if have := b.functions[key]; have != nil {
		return have
	}
	name := f.Name
	if name == "<module>" { // viewers would read <module> as template parameters
		name = "module " + filepath.Base(f.File)
	}
	have := &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: name, SystemName: name, Filename: f.File}
	b.functions[key], b.p.Function = have, append(b.p.Function, have)
	return have
}
