package model_test

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// TestFinishCleansEveryText: names that become equal are one name from then on.
func TestFinishCleansEveryText(t *testing.T) {
	const bad = "a\x1b\u202e\n"
	const clean = "a\ufffd\ufffd "
	tr := &model.Trace{
		Path: bad, Names: []string{"mm", bad, "a\x07\x00\t", "mm2"}, Lanes: []model.Lane{{Name: bad}}, Devices: []model.Device{{Name: bad}}, Stacks: []string{bad},
		Program: model.Program{Command: []string{bad}, Dir: bad}, Warnings: []gpuprof.Warning{{Code: bad, Text: bad, Fix: bad}},
		Host: []model.Host{{Name: 1, Kind: model.Op, End: 10}, {Name: 2, Kind: model.Op, Start: 1, End: 9}, {Name: 3, Kind: model.Op, Start: 2, End: 8}, {Name: 99, Kind: model.Op, Start: 3, End: 7}},
		GPU:  []model.GPU{{Name: 2, Kind: model.Kernel, Launch: -1}},
	}
	tr.Finish()
	for _, s := range slices.Concat([]string{tr.Path, tr.Lanes[0].Name, tr.Devices[0].Name, tr.Program.Dir, tr.Warnings[0].Code, tr.Warnings[0].Text, tr.Name(tr.GPU[0].Name)}, tr.Stacks, tr.Program.Command) {
		if s != clean {
			t.Errorf("%q, want %q", s, clean)
		}
	}
	var ids []model.NameID
	for i := range tr.Host {
		ids = append(ids, tr.Host[i].Name)
	}
	if want := []model.NameID{1, 1, 3, 99}; !slices.Equal(ids, want) {
		t.Errorf("names %v, want %v", ids, want)
	}
}
