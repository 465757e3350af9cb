package html_test

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/testkit/fixture"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
	"github.com/gpuprof/gpuprof/report/page"
)

// otherKinds are pages of every kind of document that is neither runs, a comparison of runs nor a tuning of a workload.
func otherKinds(t testing.TB) map[string]func(io.Writer) error {
	t.Helper()
	out := map[string]func(io.Writer) error{}
	add := func(name string, p *page.Page, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(name, err)
		}
		out[name] = func(w io.Writer) error { return writePage(w)(p, nil) }
	}
	stall, before := fixture.Study(t, "dataloader-stall-fires.json")
	quiet, after := fixture.Study(t, "dataloader-stall-quiet.json")
	p, err := page.TraceComparison(rules.Compare(stall, quiet), before, after)
	add("traces", p, err)
	stall.Host = sampledHost()
	p, err = page.Analysis(stall, before)
	add("analysis-host", p, err)
	ranks, all := fixture.Study(t, "ddp-buffers-fires.json")
	p, err = page.Analysis(ranks, all)
	add("analysis-copies", p, err)
	for name, file := range map[string]string{"memory": "clean.pickle.gz", "memory-leak": "leak.pickle.gz", "memory-oom": "oom.pickle.gz"} {
		p, err = page.Memory(fixture.Memory(t, file))
		add(name, p, err)
	}
	searched, err := bisect.Decode(galleryText(t, "bisect.json"), "bisect.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err = page.Bisect(searched)
	add("bisect", p, err)
	p, err = page.History(fixture.History())
	add("history", p, err)
	site, err := page.HistorySite(fixture.History())
	if err != nil {
		t.Fatal(err)
	}
	add("site-index", site[0].Page, nil)
	add("site-benchmark", site[1].Page, nil)
	p, err = page.Fleet(fixture.Fleet())
	add("fleet", p, err)
	p, err = page.Fleet(fixture.Straggling())
	add("fleet-straggling", p, err)
	p, err = page.Check(&gpuprof.CheckReport{Head: document.NewHead(document.Check, gpuprof.Tool{}), Workload: "e3nn", Preset: "small", Device: "host", Stages: fixture.One().Checks, Cases: fixture.Cases()})
	add("check", p, err)
	p, err = page.Diagnosis(fixture.Diagnosis())
	add("diagnosis", p, err)
	p, err = page.Noise(fixture.Noise())
	add("noise", p, err)
	report, err := health.Judge(nil, []health.Card{{Device: "cuda:0", Name: "made up", Metrics: []health.Metric{{Name: "copy", Unit: "B/s", Value: 4e12}, {Name: "launch", Unit: "s", Value: 5.25e-6}}}}, nil, gpuprof.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	p, err = page.Health(report)
	add("health", p, err)
	served, err := document.Runs(galleryText(t, "serving.json.gz"), "serving.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err = page.Runs(served)
	add("serving", p, err)
	p, err = page.Runs(fixture.Loaded())
	add("loads", p, err)
	return out
}

// sampledHost is an account of a host thread with sampled stacks.
func sampledHost() *analyze.HostAccount {
	tree := func(ns int64, frames ...string) analyze.HostTree {
		return analyze.HostTree{Frames: frames, NS: ns, Doing: model.InPython}
	}
	return &analyze.HostAccount{NS: 9_400_000, Steps: 4, Samples: 53, Sampled: 7, BareNS: 8_300_000, Causes: []analyze.HostCause{},
		Parts: []analyze.HostPart{{Name: analyze.HostOnCPU, NS: 9_400_000, Share: 1}},
		Stacks: []analyze.HostTree{tree(5_100_000, "train.py:24", "train.py:17 in step", "train.py:11 in fetch"), tree(2_300_000, "train.py:24", "train.py:17 in step", "train.py:8 in features"),
			tree(900_000, "train.py:24", "train.py:19 in step")}}
}

// galleryText is a file of testdata/gallery, unpacked.
func galleryText(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "testdata", "gallery", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
