package analyze

import (
	"math"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// judged is an analysis of steps of 100 ms on one device, with idle time of ms.
func judged(idle int64, findings ...gpuprof.Finding) *Analysis {
	busy := 100 - idle
	return &Analysis{Devices: make([]DeviceAccount, 1), Findings: findings, Bound: Bound{By: "compute", Nothing: len(findings) == 0},
		Step: StepMean{Count: 5, NS: 100e6, Parts: Parts{BusyNS: busy * 1e6, StarvedNS: idle * 1e6, Classes: map[model.Class]int64{model.GEMM: busy * 1e6}}}}
}

// claimed is a finding that claims ms of each step, in one part of it.
func claimed(rule, part string, ms int64) gpuprof.Finding {
	share := float64(ms) / 100
	return gpuprof.Finding{Rule: rule, ClaimNS: 5 * ms * 1e6, StepNS: ms * 1e6, Share: share, Severity: SeverityOf(5*ms*1e6, share),
		Parts: map[string]int64{part: ms * 1e6}, PyTorch: "change it", Command: "gpuprof run"}
}

func TestAnswerFollowsTheState(t *testing.T) {
	withheld := gpuprof.Finding{Rule: gpuprof.RuleTraceQuality, Title: "records of the trace are wrong: 40 of 100", Severity: gpuprof.Note,
		Evidence: map[string]any{"suppressed": "host-bound item"}, PyTorch: "record again"}
	unsupported := &Analysis{Bound: Bound{Text: "No device operation was recorded, so nothing can be said of a GPU."}, Warnings: []gpuprof.Warning{
		{Code: "nsys", Text: "Nsight Systems reported: No NVTX events collected."}, {Code: "nsys", Text: "Nsight Systems reported: Not all CUDA events might have been collected."},
		{Code: "nsys", Text: "Nsight Systems reported: Installed CUDA driver version (13.3) is not supported by this build."}}}
	lost := judged(0)
	lost.Warnings = []gpuprof.Warning{{Code: lostKernels, Text: "no kernel was recorded", Fix: "record again"}}
	late := judged(10, claimed(gpuprof.RuleStraggler, "communication", 12))
	late.Ranks = []RankTime{{Rank: 0}, {Rank: 3, Straggler: true, WaitedNS: 12e6, Cause: "its data loader takes 12 ms more"}}
	note := func(rule, title string) gpuprof.Finding {
		return gpuprof.Finding{Rule: rule, Severity: gpuprof.Note, Title: title}
	}
	starting := judged(60, note(gpuprof.RuleNotSteady, "1.20 s of the 1.30 s recorded are start-up"), claimed(gpuprof.RuleItem, "starved", 12))
	one := judged(20, note(gpuprof.RuleOneKernel, "solve takes 90 % of the work"), claimed(gpuprof.RuleStreamWait, "queued", 12))
	moves := claimed(gpuprof.RuleUnifiedMemory, "copy", 1)
	moves.Severity, moves.Title = gpuprof.Low, "the driver moves pages for 9.00 ms"
	pages := judged(80, moves)
	failed := judged(80, claimed(gpuprof.RuleItem, "starved", 12))
	failed.Warnings = []gpuprof.Warning{{Code: failedLaunches, Text: "2 launches failed", Fix: "compile again"}}
	broken := judged(20, note(gpuprof.RuleOneKernel, "solve takes 90 % of the work"))
	broken.Devices[0].Kernels = 4
	broken.Warnings = []gpuprof.Warning{{Code: failedKernel, Text: "a kernel failed", Fix: "look at it"}}
	someFailed := judged(20, note(gpuprof.RuleOneKernel, "solve takes 90 % of the work"))
	someFailed.Devices[0].Kernels = 4
	someFailed.Warnings = failed.Warnings
	for name, c := range map[string]struct {
		of       *Analysis
		verdict  string
		tone     gpuprof.Tone
		sentence string
	}{
		"mostly one cause":  {judged(40, claimed(gpuprof.RuleDataloaderStall, "starved", 30)), "slow: data loader", gpuprof.ToneBad, "The GPU idles 40 % of each 100 ms step, mostly because the step waits for the data loader: up to 30.0 ms."},
		"part of the cause": {judged(40, claimed(gpuprof.RuleItem, "starved", 12)), "slow: single values read", gpuprof.ToneBad, "in part because single values are read from the device: up to 12.0 ms."},
		"kernels":           {judged(0, claimed(gpuprof.RuleNoTF32, "gemm", 50)), "slow: float32 products", gpuprof.ToneBad, "Products of float32 do not use the tensor cores, which costs up to 50.0 ms of each 100 ms step (50 %)."},
		"straggler":         {late, "slow: rank 3", gpuprof.ToneBad, "The other ranks wait for rank 3: 12.0 ms of each 100 ms step, since its data loader takes 12 ms more."},
		"healthy":           {judged(2), "healthy", gpuprof.ToneGood, "The GPU is busy 98 % of each 100 ms step, and no finding claims 0.5 % of it."},
		"nearly healthy":    {judged(4, claimed(gpuprof.RuleItem, "starved", 2)), "healthy", gpuprof.ToneGood, "the largest saving that was found is up to 2.00 ms."},
		"busy":              {judged(7, claimed(gpuprof.RuleHostBound, "starved", 6)), "healthy", gpuprof.ToneGood, "The GPU is busy 93 % of each 100 ms step; the largest saving that was found is up to 6.00 ms."},
		"busy, kernels":     {judged(7, claimed(gpuprof.RuleNoTF32, "gemm", 6)), "slow: float32 products", gpuprof.ToneBad, "up to 6.00 ms of each 100 ms step (6 %)."},
		"unsupported":       {unsupported, "not decided", gpuprof.ToneUnsure, "No device operation was recorded, so nothing can be said of a GPU. Nsight Systems reported: Installed CUDA driver version (13.3) is not supported by this build."},
		"idle, no cause":    {judged(60), "not decided", gpuprof.ToneUnsure, "The GPU idles 60 % of each 100 ms step, and no finding explains as much as 3 % of the mean step."},
		"withheld":          {judged(30, withheld), "fault of the recording", gpuprof.ToneBad, "Findings are withheld: host-bound, item."},
		"lost":              {lost, "fault of the recording", gpuprof.ToneBad, "No kernel was recorded."},
		"start-up":          {starting, "not decided", gpuprof.ToneUnsure, "1.20 s of the 1.30 s recorded are start-up."},
		"one kernel":        {one, "bound by one kernel", gpuprof.ToneUnsure, "solve takes 90 % of the work."},
		"pages":             {pages, "slow: page moves", gpuprof.ToneBad, "The driver moves pages for 9.00 ms."},
		"failed launches":   {failed, "fault of the program", gpuprof.ToneBad, "2 launches failed."},
		"a failed kernel":   {broken, "fault of the program", gpuprof.ToneBad, "A kernel failed."},
		"some launches":     {someFailed, "bound by one kernel", gpuprof.ToneUnsure, "solve takes 90 % of the work."},
		"nothing":           {&Analysis{}, "not decided", gpuprof.ToneUnsure, "nothing that a rule could judge"},
	} {
		got := c.of.Answer()
		if got.Verdict != c.verdict || got.Tone != c.tone || !strings.Contains(got.Sentence, c.sentence) {
			t.Errorf("%s: [%s] %s %q, want [%s] %s %q", name, got.Verdict, got.Tone, got.Sentence, c.verdict, c.tone, c.sentence)
		}
		if words := len(strings.Fields(got.Sentence)); words > 32 {
			t.Errorf("%s: a sentence of %d words", name, words)
		}
		if (got.Bar != nil) != (len(c.of.Devices) > 0) {
			t.Errorf("%s: bar %+v", name, got.Bar)
		}
	}
}

// TestEveryRuleHasAShortCause: a verdict never has the id of a rule of traces, and at most three words beside "slow:".
func TestEveryRuleHasAShortCause(t *testing.T) {
	for _, r := range gpuprof.Rules() {
		short := (&Analysis{}).shortCause(r.ID)
		if !r.Traces || r.ID == gpuprof.RuleTraceQuality || r.ID == gpuprof.RuleNotSteady {
			continue
		}
		if shortCauses()[r.ID] == "" || len(strings.Fields(short)) > 4 {
			t.Errorf("%s: %q", r.ID, short)
		}
	}
}

// A recording that is mostly start-up is drawn with its phases, and one of communication alone has no bar: its idle time
// is unknown.
func TestAnswerDrawsWhatItSays(t *testing.T) {
	first := gpuprof.Finding{Rule: gpuprof.RuleNotSteady, Severity: gpuprof.Note, Title: "528 ms of the 542 ms recorded are start-up"}
	a := judged(90, first)
	a.Step.Count, a.Recording = 0, &Recording{Kind: OnePass, Phases: []Phase{{Name: PhaseStartUp, NS: 500e6}, {Name: PhaseCompile, NS: 28e6}}}
	b := a.Answer().Bar
	if b == nil || b.Of != "recording" || math.Abs(b.Total-0.628) > 1e-9 || len(b.Parts) != 3 || b.Parts[0].Name != PhaseStartUp || b.Parts[2].Value != 0.1 {
		t.Errorf("start-up: %+v", b)
	}
	a.Recording = &Recording{Kind: CommunicationOnly}
	if b := a.Answer().Bar; b != nil {
		t.Errorf("communication alone: %+v", b)
	}
}

// An advised line of Python that ends with a colon gets no second mark.
func TestActionEndsOnce(t *testing.T) {
	f := claimed(gpuprof.RuleNoAMP, "gemm", 50)
	for advice, want := range map[string]string{"with autocast():": "Change: with autocast(). Then measure:", "set it": "Change: set it. Then measure:"} {
		f.PyTorch = advice
		if got := actionOf(&f); got.Text != want {
			t.Errorf("%q, want %q", got.Text, want)
		}
	}
}

// Without a device the answer's sentence and bar have the parts of the host thread, in words.
func TestAnswerWithoutADevice(t *testing.T) {
	for program, want := range map[Program]struct{ sentence, part string }{
		PyTorch: {"The host thread spends 80 % of the step blocked in waits, reads and sleeps outside operators.", "outside, blocked"},
		Python:  {"The host thread spends 80 % of the step blocked in waits, reads and sleeps.", "blocked"},
	} {
		a := &Analysis{Recording: &Recording{Program: program}, Step: StepMean{Count: 5}, Host: &HostAccount{NS: 10e6,
			Parts: []HostPart{{Name: HostBlocked, NS: 8e6, Share: 0.8}, {Name: HostOnCPU, NS: 2e6, Share: 0.2}}}}
		a.findBound(nil, nil)
		got := a.Answer()
		if !strings.HasSuffix(got.Sentence, want.sentence) || got.Bar == nil || got.Bar.Parts[0].Name != want.part || got.Bar.Total != 0.01 {
			t.Errorf("%s: %q, bar %+v", program, got.Sentence, got.Bar)
		}
	}
}
