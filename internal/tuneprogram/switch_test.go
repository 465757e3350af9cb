//go:build !race

package tuneprogram

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/internal/tune"
)

// switchTrain runs testdata/train.py with settings that it switches in blocks.
func switchTrain(t *testing.T, c Cells, warm int, words ...string) (run struct {
	blocks map[string]int
	took   map[string]int
	said   told
	failed string
}) {
	t.Helper()
	program, said := trainCommand(t, words)
	r, err := program.Switch(context.Background(), c, warm, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	run.blocks, run.took, run.said, run.failed = map[string]int{}, map[string]int{}, said(), r.Failed
	for _, b := range r.Blocks {
		run.blocks[b.Name], run.took[b.Name] = len(b.Seconds), b.Took
		for _, s := range b.Seconds {
			if s[0] <= 0 || s[1] <= 0 {
				t.Errorf("%s: a block of %v seconds", b.Name, s)
			}
		}
	}
	return run
}

func switched(knob, value string, keys map[string]any) Setting {
	return Setting{Knob: knob, Value: value, Hook: keys}
}

// TestSwitchOrder: a block is off, on twice as long and off again, one step longer each time than what is timed; the
// second block begins with on.
func TestSwitchOrder(t *testing.T) {
	c := Cells{Settings: []Setting{switched("fused", "True", map[string]any{"fused": true})}, Steps: 2, Blocks: 2}
	run := switchTrain(t, c, 3)
	if run.failed != "" || run.blocks["fused=True"] != 2 || run.took["fused=True"] == 0 {
		t.Fatalf("run %+v", run)
	}
	var order strings.Builder
	for _, used := range run.said.Used {
		switch used {
		case [2]any{false, nil}:
			order.WriteByte('0')
		case [2]any{false, true}:
			order.WriteByte('1')
		default:
			t.Fatalf("foreach and fused were %v", used)
		}
	}
	if want := "000" + "000" + "11111" + "000" + "111" + "00000" + "111"; !strings.HasPrefix(want, order.String()) || len(want)-order.Len() > 1 {
		t.Errorf("switched as %s, want %s", order.String(), want)
	}
}

// TestSwitchEach: every setting that can be switched takes hold while it is on, and the program's own state comes back.
func TestSwitchEach(t *testing.T) {
	c := Cells{Steps: 2, Blocks: 2, Settings: []Setting{
		switched("threads", "1", map[string]any{"threads": 1}),
		switched("gc.collect", "removed", map[string]any{"remove": []string{"gc.collect"}}),
		switched("anomaly_detection", "off", map[string]any{"anomaly_off": true}),
		switched("deterministic", "off", map[string]any{"deterministic_off": true}),
		switched("set_to_none", "True", map[string]any{"set_to_none": true}),
		switched("foreach", "True", map[string]any{"foreach": true}),
		switched("mkldnn", "on", map[string]any{"mkldnn_on": true}),
		switched("cudnn.benchmark", "on", map[string]any{"cudnn_benchmark": true}),
	}}
	run := switchTrain(t, c, 2, "threads=16", "collect=1", "anomaly=1", "deterministic=1", "keep=1", "mkldnn=0")
	for _, s := range c.Settings {
		if run.blocks[s.Name()] != 2 || run.took[s.Name()] == 0 {
			t.Errorf("%s: %d blocks, took hold %d times", s.Name(), run.blocks[s.Name()], run.took[s.Name()])
		}
	}
	// Each setting is on for 5 steps of its first block and 6 of its second, and off in those of the seven others.
	if len(run.said.States) < c.countSteps() {
		t.Fatalf("%d steps were told", len(run.said.States))
	}
	on := map[string]int{}
	for _, state := range run.said.States {
		for name, is := range state {
			if is {
				on[name]++
			}
		}
	}
	for _, name := range []string{"threads", "anomaly", "deterministic", "mkldnn", "benchmark"} {
		if on[name] < 10 || on[name] > 11 {
			t.Errorf("%s was switched on for %d steps: %v", name, on[name], on)
		}
	}
	if off := slices.Index(run.said.Collected, false); off < 0 || !slices.Contains(run.said.Collected[off:], true) {
		t.Errorf("gc.collect collects again while its setting is off: %v", run.said.Collected)
	}
}

// TestSwitchBeside: a set that both sides have is on from the start, off and on.
func TestSwitchBeside(t *testing.T) {
	c := Cells{Base: setOf("gc.collect", "removed", map[string]any{"remove": []string{"gc.collect"}}), Steps: 1, Blocks: 4,
		Settings: []Setting{switched("fused", "True", map[string]any{"fused": true})}}
	run := switchTrain(t, c, 2, "collect=1")
	if run.blocks["fused=True"] != 4 || run.took["fused=True"] == 0 || slices.Contains(run.said.Collected, true) {
		t.Errorf("run %+v", run)
	}
}

// TestSwitchShort: a program that ends early keeps its whole blocks.
func TestSwitchShort(t *testing.T) {
	c := Cells{Steps: 2, Blocks: 10, Settings: []Setting{switched("fused", "True", map[string]any{"fused": true})}}
	t.Run("ends", func(t *testing.T) {
		run := switchTrain(t, c, 2, "samples=160") // 40 steps: two left out, 38 are three blocks of 11 and a part
		if run.failed != "" || run.blocks["fused=True"] != 3 {
			t.Errorf("%d blocks, failed %q", run.blocks["fused=True"], run.failed)
		}
	})
	t.Run("fails", func(t *testing.T) {
		if run := switchTrain(t, c, 2, "fail=1"); !strings.Contains(run.failed, "not finite") {
			t.Errorf("failed %q", run.failed)
		}
	})
}

// TestSwitchable: what stays for the process is compared in processes of its own.
func TestSwitchable(t *testing.T) {
	e := &engine{p: &tune.Program{}}
	for key, want := range map[string]bool{"num_workers": false, "compile": false, "fused": true, "threads": true} {
		if got := e.canSwitch(switched("knob", "value", map[string]any{key: 1})); got != want {
			t.Errorf("%s can be switched: %v", key, got)
		}
	}
	if e.p.Device = "cuda"; e.canSwitch(switched("fused", "True", map[string]any{"fused": true})) {
		t.Error("the state of a fused optimizer stays on its GPU")
	}
}
