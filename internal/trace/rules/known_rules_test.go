package rules_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
	"github.com/gpuprof/gpuprof/internal/trace/rules"
)

// knownTrace reads a trace that somebody else recorded, for which answers are
// known. The files are not part of the repository: GPUPROF_TRACES names their
// folder, else it is looked for beside the repository.
func knownTrace(t *testing.T, name string) *model.Trace {
	t.Helper()
	folder := os.Getenv("GPUPROF_TRACES")
	if folder == "" {
		folder = filepath.Join("..", "..", "..", "..", "shared", "traces")
	}
	f, err := os.Open(filepath.Join(folder, name))
	if err != nil {
		t.Skipf("the recorded traces are not here (%v): known answers are not checked; set GPUPROF_TRACES to their folder", err) //nolint:forbidigo // other people's traces are not ours to commit
	}
	defer f.Close()
	in, err := kineto.Read(t.Context(), bufio.NewReader(f), name, 0)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

const (
	workers0 = "resnet50_num_workers_0.1623143089861.pt.trace.json.gz"
	workers4 = "resnet50_num_workers_4.1623212756351.pt.trace.json.gz"
)

// Moving this program from 0 to 4 loader workers saved 49,725 us a step: what
// was claimed for it lies between that and 1.35 times that.
func TestKnownLoaderClaim(t *testing.T) {
	const saved = 49_725 * us
	before, x := analyse(t, knownTrace(t, workers0))
	f := mustFind(t, before, "dataloader-stall")
	if f.StepNS < saved || f.StepNS*100 > saved*135 {
		t.Errorf("claims %d ns a step, want between %d and 1.35 times that", f.StepNS, saved)
	}
	checkBounds(t, before, x)
	after, x := analyse(t, knownTrace(t, workers4))
	if f := find(after, "dataloader-stall"); f != nil {
		t.Errorf("fires with four workers: %s", f.Title)
	}
	checkBounds(t, after, x)

	c := rules.Compare(before, after)
	for _, change := range c.Findings {
		if change.Rule != "dataloader-stall" {
			continue
		}
		if change.Outcome != "gone" || change.CameTrue != "yes" {
			t.Errorf("the loader's finding is %s and came true: %s; %s", change.Outcome, change.CameTrue, change.Statement)
		}
		return
	}
	t.Error("the comparison does not mention the loader")
}

// A trace with little starved time: the host's waits overlap work, and no
// claim of the host may be larger than what was starved.
func TestKnownQueue(t *testing.T) {
	a, x := analyse(t, knownTrace(t, "negative_queue_length.json.gz"))
	checkBounds(t, a, x)
	var host int64
	for _, f := range a.Findings {
		if hostRules[f.Rule] {
			host += f.ClaimNS
		}
	}
	if host > 10_554*us {
		t.Errorf("the host's claims are %d ns, starved are 10,554 us", host)
	}
	if f := find(a, "item"); f != nil {
		t.Errorf("945 reads of CPU scalars, none of which waits, and item fires: %s %v", f.Title, f.Evidence)
	}
	if f := find(a, "explicit-sync"); f != nil && f.Evidence["host_ns"].(int64) >= 158_183*us {
		t.Errorf("the profiler's own synchronisation of 158,183 us is taken for the program's: %v", f)
	}
	mustFind(t, a, "stream-wait")
	mustFind(t, a, "trace-quality")
}

func TestKnownBounds(t *testing.T) {
	for _, name := range []string{"ns_resolution_trace.json.gz", "ddp_control.json.gz", "bert_small_h100.json.gz"} {
		t.Run(name, func(t *testing.T) {
			a, x := analyse(t, knownTrace(t, name))
			checkBounds(t, a, x)
		})
	}
}

// What is known of single rules in other people's programs.
func TestKnownRules(t *testing.T) {
	ddp, _ := analyse(t, knownTrace(t, "ddp_control.json.gz"))
	for _, rule := range []string{"exposed-comm", "hidden-sync", "no-amp"} {
		mustFind(t, ddp, rule)
	}
	if f := find(ddp, "no-tf32"); f != nil { // other matrix products of the recording are computed in TF32
		t.Errorf("TF32 is on: %s", f.Title)
	}
	if f := find(ddp, "dataloader-stall"); f != nil {
		t.Errorf("a loader of 70 us in 76 ms is called a stall: %s", f.Title)
	}
	bert, _ := analyse(t, knownTrace(t, "bert_small_h100.json.gz"))
	if f := find(bert, "no-amp"); f != nil {
		t.Errorf("a model in bf16 is told to use bf16: %s", f.Title)
	}
	f := mustFind(t, bert, "launch-bound")
	if !strings.Contains(caveats(f), "inflated by profiling") {
		t.Errorf("the trace has Python frames, and launch-bound does not say so: %v", f.Caveats)
	}
	v100, _ := analyse(t, knownTrace(t, "ns_resolution_trace.json.gz"))
	if f := find(v100, "no-tf32"); f != nil {
		t.Errorf("a device without TF32 is told to use it: %s", f.Title)
	}
	mustFind(t, v100, "no-amp")
}
