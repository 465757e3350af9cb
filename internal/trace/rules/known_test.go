package rules_test

import (
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/read/nsys"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// The answers below were worked out by hand, or with other tools, for traces
// that other people published. They are too big for this repository: a
// checkout of them is looked for in $GPUPROF_TRACES, then beside the
// repository.
func known(t *testing.T, name string) *model.Trace {
	t.Helper()
	dir := os.Getenv("GPUPROF_TRACES")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "traces")
	}
	found, err := filepath.Glob(filepath.Join(dir, name+"*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		t.Skipf("KNOWN ANSWERS NOT CHECKED: no %s* in %s; set GPUPROF_TRACES to the folder that has the published traces", name, dir) //nolint:forbidigo // the published traces are not part of the repository
	}
	ctx := context.Background()
	if strings.HasSuffix(found[0], ".sqlite") {
		tr, err := nsys.Read(ctx, found[0], found[0], 0)
		if err != nil {
			t.Fatal(err)
		}
		return tr
	}
	f, err := os.Open(found[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(found[0], ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := kineto.Read(ctx, r, found[0], 0)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func knownAnalysis(t *testing.T, name string) *analyze.Analysis {
	t.Helper()
	a, err := summarise(context.Background(), []*model.Trace{known(t, name)}, analyze.Options{Rules: rules.Rules})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

const micro = 1000 // ns

func claimOf(a *analyze.Analysis, rule string) int64 {
	var ns int64
	for _, f := range a.Findings {
		if f.Rule == rule {
			ns += f.StepNS
		}
	}
	return ns
}

func TestKnownResNetWithoutWorkers(t *testing.T) {
	a := knownAnalysis(t, "resnet50_num_workers_0")
	s, d := a.Steps[0], a.Devices[0]
	equal(t, "name", s.Name, "ProfilerStep#5")
	equal(t, "step as recorded", s.HostDurNS, 176_078*micro)
	equal(t, "step to its last kernel", s.DurNS, 187_948*micro)
	equal(t, "kernels in it", s.KernelNS, 98_598*micro)
	if u := d.Utilisation * 100; u < 55.505 || u > 55.515 {
		t.Errorf("utilisation %.4f %%, want 55.51", u)
	}
	// Moving to four workers saved a median 49,725 us a step.
	if c := claimOf(a, "dataloader-stall"); c < 49_725*micro || c > 49_725*micro*135/100 {
		t.Errorf("the loader's claim is %d ns a step; it must lie between the 49,725 us that were saved and 1.35 times that", c)
	}
}

func TestKnownResNetWithWorkers(t *testing.T) {
	a := knownAnalysis(t, "resnet50_num_workers_4")
	if u := a.Devices[0].Utilisation * 100; u < 70.265 || u > 70.275 {
		t.Errorf("utilisation %.4f %%, want 70.27", u)
	}
	for _, f := range a.Findings {
		if f.Rule == "dataloader-stall" {
			t.Errorf("the loader is said to stall: %s", f.Title)
		}
	}
}

func TestKnownNanoseconds(t *testing.T) {
	equal(t, "kernels", knownAnalysis(t, "ns_resolution_trace").Devices[0].KernelNS, 468_153_602)
}

func TestKnownNegativeQueue(t *testing.T) {
	tr := known(t, "negative_queue_length")
	ctx := context.Background()
	x, err := analyze.NewIndex(ctx, tr)
	if err != nil {
		t.Fatal(err)
	}
	a, err := analyze.SummariseIndexes(ctx, []*analyze.Index{x}, analyze.Options{Rules: rules.Rules})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "pageable copies to the host", a.Copies["d2h_pageable"].Count, 30)
	equal(t, "their time on the device", a.Copies["d2h_pageable"].GPUNS, 80*micro)
	equal(t, "their time on the host", a.Copies["d2h_pageable"].HostNS, 758_396*micro)
	equal(t, "stream synchronisations", a.Syncs["cudaStreamSynchronize"], analyze.CallTime{Count: 75, HostNS: 2_799 * us})
	if _, there := a.Syncs["cudaDeviceSynchronize"]; there || x.Trailing < 0 || tr.Host[x.Trailing].Dur() != 158_183*micro {
		t.Errorf("the profiler's closing synchronisation (158,183 us) was not set apart: event %d, sums %v", x.Trailing, a.Syncs)
	}
	d := a.Devices[0]
	equal(t, "starved", d.StarvedNS, 10_554*micro)
	equal(t, "queued", d.QueuedNS, 690_691*micro)
	// The published figure counts from the first step, 989 us before the first
	// operation, whose launch was not recorded.
	equal(t, "unknown", d.UnknownNS+d.Lead.UnknownNS, 92_781*micro)
	var claims int64
	for _, f := range a.Findings {
		switch f.Rule {
		case "dataloader-stall", "hidden-sync", "explicit-sync", "item", "data-dependent-shape", "launch-bound", "allocator-churn":
			claims += f.ClaimNS
		}
	}
	if claims > d.StarvedNS {
		t.Errorf("the host's claims add up to %d ns, more than the %d ns the device starved", claims, d.StarvedNS)
	}
	items := 0
	for i := range tr.Host {
		if tr.Name(tr.Host[i].Name) != "aten::item" {
			continue
		}
		items++
		lo, hi := x.Inside(int32(i))
		for h := lo; h < hi; h++ {
			if x.Call(h) == model.CallSync {
				t.Errorf("aten::item at %d encloses a synchronisation", tr.Host[i].Start)
			}
		}
		for _, g := range x.Launched(int32(i)) {
			if tr.GPU[g].Dir == model.D2H {
				t.Errorf("aten::item at %d encloses a copy to the host", tr.Host[i].Start)
			}
		}
	}
	equal(t, "aten::item", items, 945)
}

func TestKnownTwoGPUs(t *testing.T) {
	tr := known(t, "mfu_2gpu_before")
	kernels, linked, pageable := 0, 0, 0
	for i := range tr.GPU {
		switch g := &tr.GPU[i]; g.Kind {
		case model.Kernel:
			kernels++
			if g.Launch >= 0 {
				linked++
			}
		case model.Memcpy:
			if g.Memory == model.Pageable {
				pageable++
			}
		}
	}
	equal(t, "kernels", kernels, 4010)
	equal(t, "kernels with a launch", linked, 3986)
	equal(t, "pageable copies", pageable, 34)
}

// TestKnownClasses: on every published trace the classes add up and nothing
// that matters is left in no class.
func TestKnownClasses(t *testing.T) {
	for _, name := range []string{"resnet50_num_workers_0", "resnet50_num_workers_4", "negative_queue_length", "ns_resolution_trace", "ddp_control", "bert_small_h100", "mfu_2gpu_before", "mfu_2gpu_after"} {
		t.Run(name, func(t *testing.T) {
			for _, d := range knownAnalysis(t, name).Devices {
				var classes int64
				for _, ns := range d.Classes {
					classes += ns
				}
				equal(t, "classes", classes, d.BusyNS)
				equal(t, "busy and idle", d.BusyNS+d.IdleNS, d.SpanNS)
				equal(t, "idle", d.StarvedNS+d.QueuedNS+d.UnknownNS, d.IdleNS)
				if other := d.Classes[model.Other]; other*10 > d.BusyNS {
					t.Errorf("device %d: %d of %d ns are in no class", d.ID, other, d.BusyNS)
				}
			}
		})
	}
}
