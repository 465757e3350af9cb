package search

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/collate"
	"github.com/gpuprof/gpuprof/workloads/e3nn"
)

// bothKnobs has the knobs of a loader and those of a model.
type bothKnobs struct{ fake }

func (bothKnobs) Knobs() []workloads.Knob {
	return slices.Concat(collate.New().Knobs(), e3nn.New().Knobs())
}

// Lines that a program can hold together: a second DataLoader or compile would
// undo the first.
func TestLinesOfSeveralKnobs(t *testing.T) {
	for name, c := range map[string]struct {
		changes []Change
		want    []string
	}{
		"none": {nil, []string{}},
		"one loader": {[]Change{{Knob: "prefetch", To: "4"}, {Knob: "sync", To: "never"}, {Knob: "workers", To: "2"}, {Knob: "pinned", To: "on"}, {Knob: "persistent", To: "on"}},
			[]string{"# delete torch.cuda.synchronize() from the loop", "loader = DataLoader(dataset, num_workers=2, prefetch_factor=4, pin_memory=True, persistent_workers=True)"}},
		"a number of the user's": {[]Change{{Knob: "prefetch", To: "2"}, {Knob: "persistent", To: "on"}}, []string{"loader = DataLoader(dataset, num_workers=N, prefetch_factor=2, persistent_workers=True)"}},
		"no workers":             {[]Change{{Knob: "workers", To: "0"}, {Knob: "prefetch", To: "2"}, {Knob: "batch", To: "8"}}, []string{"loader = DataLoader(dataset, num_workers=0, batch_size=8)"}},
		"a number with commas":   {[]Change{{Knob: "workers", To: "auto"}, {Knob: "worker_kind", To: "process"}}, []string{"loader = DataLoader(dataset, num_workers=max(1, min(os.cpu_count() - 1, 4)))"}},
		"both modes":             {[]Change{{Knob: "graph", To: "on"}, {Knob: "autotune", To: "on"}}, []string{"model = torch.compile(model, mode='max-autotune')"}},
		"one mode":               {[]Change{{Knob: "graph", To: "off"}, {Knob: "autotune", To: "on"}}, []string{"model = torch.compile(model, mode='max-autotune-no-cudagraphs')"}},
		"no mode":                {[]Change{{Knob: "graph", To: "off"}, {Knob: "autotune", To: "off"}}, []string{"model = torch.compile(model)  # without a mode"}},
		"one copy":               {[]Change{{Knob: "async_copy", To: "on"}, {Knob: "streams", To: "2"}}, []string{"with torch.cuda.stream(copy_stream): batch = batch.to(device, non_blocking=True)"}},
	} {
		if got := pytorchLines(bothKnobs{}, c.changes); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestOneTimeText(t *testing.T) {
	for want, r := range map[string]tune.Recommended{
		"":                {},
		"autotune 500 ms": {OneTime: map[string]float64{"autotune_s": 0.5}},
		"2.00 s of setting up, of which autotune 500 ms; saved again after 40 steps": {OneTime: map[string]float64{"autotune_s": 0.5, "setup_s": 2}, PaybackSteps: 40},
	} {
		if got := r.OneTimeText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
