package memsnap

import (
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func TestAnswer(t *testing.T) {
	const mib = 1 << 20
	held := func(findings ...Finding) *Analysis {
		return &Analysis{Findings: findings, Devices: []Device{{Events: 100, PeakReserved: 900 * mib,
			Peak:   Moment{Requested: 800 * mib, Categories: []Part{{Category: "activation", Bytes: 500 * mib}, {Category: "other", Bytes: 300 * mib}}},
			Growth: []Growth{{Where: "a.py:3", PerStep: 1 * mib, First: 2 * mib, Last: 12 * mib, Steps: 11}, {Where: "train.py:41", PerStep: 4 * mib, First: 8 * mib, Last: 48 * mib, Steps: 11}},
			OOMs:   []Outage{{Request: 256 * mib, Cause: "live", Moment: Moment{Requested: 800 * mib, Reserved: 850 * mib, Categories: []Part{{Category: "other", Bytes: 800 * mib}}}}}}}}
	}
	stepped := func(n int, findings ...Finding) *Analysis {
		a := held(findings...)
		a.Devices[0].Steps = make([]Step, n)
		return a
	}
	unused := stepped(6)
	unused.Devices[0].PeakReserved = 1200 * mib
	risen := held()
	risen.Devices[0].Rise = 600 * mib
	other := stepped(6)
	other.Devices = append([]Device{{Events: 1, Peak: Moment{}}}, other.Devices...)
	still := held()
	still.Devices[0].Events = 0
	of := func(category string, sites ...SiteBytes) *Analysis {
		a := stepped(4)
		a.Devices[0].Peak.Categories = []Part{{Category: category, Bytes: 700 * mib}}
		a.Devices[0].Peak.Sites = sites
		return a
	}
	old, third := SiteBytes{Where: beforeRecording, Bytes: 450 * mib}, SiteBytes{Where: "state.py:7 in __init__", Bytes: 280 * mib}
	for name, c := range map[string]struct {
		of                *Analysis
		verdict, sentence string
		tone              gpuprof.Tone
	}{
		"out of memory": {held(Finding{Rule: gpuprof.RuleOutOfMemory}), "out of memory", "A request for 256 MiB failed while tensors took 800 MiB of 850 MiB reserved: live tensors fill the device.", gpuprof.ToneBad},
		"leak":          {held(Finding{Rule: gpuprof.RuleLeak, Severity: gpuprof.Low}), "leak", "Memory from train.py:41 grows by 4.00 MiB in each step: from 8.00 MiB to 48.0 MiB over 11 steps; 1 more line grows.", gpuprof.ToneBad},
		"large":         {held(Finding{Rule: gpuprof.RulePeakActivation, Severity: gpuprof.High, ClaimBytes: 400 * mib, Share: 0.5}), "peak can fall", "The peak of 800 MiB of tensors could fall by up to 400 MiB (50 %), since activations make most of the peak.", gpuprof.ToneUnsure},
		"small":         {stepped(6, Finding{Rule: gpuprof.RuleRounding, Severity: gpuprof.Low, ClaimBytes: mib}), "healthy", "no change was found that saves 64.0 MiB or more, and 3 % of the peak.", gpuprof.ToneGood},
		"none":          {stepped(5), "healthy", "Tensors take up to 800 MiB", gpuprof.ToneGood},
		"no steps":      {held(), "not decided", "Tensors take up to 800 MiB, 62 % of it activation. No change was found that saves 64.0 MiB or more, and 3 % of the peak, but the snapshot marks no steps: a leak shows in 5 steps or more.", gpuprof.ToneUnsure},
		"one step":      {stepped(1), "not decided", "but the snapshot has one step: a leak shows in 5 steps or more.", gpuprof.ToneUnsure},
		"few steps":     {stepped(4), "not decided", "but the snapshot has 4 steps:", gpuprof.ToneUnsure},
		"rises":         {risen, "not decided", "; tensors hold 600 MiB more at its end than at its beginning.", gpuprof.ToneUnsure},
		"unused":        {unused, "not decided", "but 400 MiB of the 1.17 GiB reserved hold no tensor at the peak.", gpuprof.ToneUnsure},
		"second device": {other, "healthy", "Tensors take up to 800 MiB", gpuprof.ToneGood},
		"no event":      {still, "not decided", "has no event", gpuprof.ToneUnsure},
		"no line":       {of("other", SiteBytes{Where: noFrame, Bytes: 800 * mib}, SiteBytes{Where: "a.py:1", Bytes: 100 * mib}), "not decided", "Tensors take up to 800 MiB. No", gpuprof.ToneUnsure},
		"line":          {of("other", old, third), "not decided", "800 MiB, the largest part of it, 35 %, from state.py:7 in __init__. No", gpuprof.ToneUnsure},
		"old":           {of("before the recording", old, third), "not decided", "800 MiB, 88 % of it before the recording. No", gpuprof.ToneUnsure},
		"old line":      {of("before the recording", SiteBytes{Where: "pipe.py:258 in step", Bytes: 640 * mib}), "not decided", "800 MiB, the largest part of it, 80 %, from pipe.py:258 in step. No", gpuprof.ToneUnsure},
		"no device":     {&Analysis{}, "not decided", "no device", gpuprof.ToneUnsure},
	} {
		got := c.of.Answer()
		if got.Verdict != c.verdict || got.Tone != c.tone || !strings.Contains(got.Sentence, c.sentence) {
			t.Errorf("%s: [%s] %s %q", name, got.Verdict, got.Tone, got.Sentence)
		}
		if (got.Bar != nil) != (len(c.of.Devices) > 0) {
			t.Errorf("%s: bar %+v", name, got.Bar)
		}
	}
}

// TestLeakOutranksSize: growth in each step stands before a larger saving at the peak, and after an error.
func TestLeakOutranksSize(t *testing.T) {
	of := func(rule string) int { return urgencyOf(Finding{Rule: rule}) }
	if of(gpuprof.RuleOutOfMemory) >= of(gpuprof.RuleLeak) || of(gpuprof.RuleLeak) >= of(gpuprof.RulePeakActivation) {
		t.Error("the order is not error, leak, size")
	}
}

// A wrapper of Python's own library is not the program's line.
func TestStandardLibraryIsNoSite(t *testing.T) {
	for file, user := range map[string]bool{"/home/u/.local/share/uv/python/cpython-3.10.12-linux/lib/python3.10/contextlib.py": false,
		`C:\Python311\Lib\contextlib.py`: false, "/home/u/lib/python_tools/train.py": true, "/home/u/train.py": true} {
		if got := (&Frame{File: file}).isUserCode(); got != user {
			t.Errorf("%s: %t", file, got)
		}
	}
}
