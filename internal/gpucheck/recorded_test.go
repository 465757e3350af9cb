package gpucheck

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
	"github.com/gpuprof/gpuprof/workloads/so3"
)

const (
	recordedFolder  = "../../baselines/nvidia-h200/gpu-check/"
	performancePage = "../../docs/performance.md"
	h200Cache       = 60 << 20
)

var update = flag.Bool("update", false, "write the tables of docs/performance.md again")

// recordedTables are the tables of docs/performance.md that are made from what an H200 gave.
func recordedTables(r *recordedCheck) map[string]string {
	return map[string]string{"tensor products": r.products(), "sums": r.sums(), "matrix products": r.matrices(), "GRU": r.gru(), "steps": r.steps()}
}

// The tables of docs/performance.md say what baselines/nvidia-h200/gpu-check holds, by the
// present rules of exposed time and of roofline bounds. -update writes them.
func TestRecordedTables(t *testing.T) {
	page, err := os.ReadFile(performancePage)
	if err != nil {
		t.Fatal(err)
	}
	want := string(page)
	for name, table := range recordedTables(newRecordedCheck(t)) {
		begin, end := "<!-- recorded: "+name+" -->\n", "<!-- end of recorded -->\n"
		_, after, found := strings.Cut(want, begin)
		old, _, ended := strings.Cut(after, end)
		if !found || !ended {
			t.Fatalf("docs/performance.md has no table %q between its marks", name)
		}
		want = strings.Replace(want, begin+old+end, begin+table+end, 1)
	}
	if want == string(page) {
		return
	}
	if !*update {
		t.Fatal("a table of docs/performance.md is not what the recorded runs give; write it with go test ./internal/gpucheck -run TestRecordedTables -update")
	}
	if err := os.WriteFile(performancePage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recordedCheck is what gpu-check left on an H200.
type recordedCheck struct {
	t       *testing.T
	figures map[string]figure
	peers   map[string]float64 // by name and peer
	// Rates of memory by kind of traffic were not measured then. low takes that of a copy
	// for all of it, high the most that the memory's clock and bus allow, and caches that
	// cost no time: the bound is between.
	low, high gpuprof.Ceilings
}

func newRecordedCheck(t *testing.T) *recordedCheck {
	t.Helper()
	r := &recordedCheck{t: t, figures: map[string]figure{}, peers: map[string]float64{}}
	eachLine(t, "figures.jsonl", func(line []byte) error {
		var f figure
		err := json.Unmarshal(line, &f)
		r.figures[f.Name] = f
		return err
	})
	eachLine(t, "peers.jsonl", func(line []byte) error {
		var p struct {
			Name, Peer string
			Value      *float64
		}
		err := json.Unmarshal(line, &p)
		if p.Value != nil {
			r.peers[p.Name+" "+p.Peer] = *p.Value
		}
		return err
	})
	r.low = gpuprof.Ceilings{CopyBytesPerS: r.value("ceiling/copy"), FlopsPerS: r.value("ceiling/gemm_fp32"), TF32FlopsPerS: r.value("ceiling/gemm_tf32"),
		BF16FlopsPerS: r.value("ceiling/gemm_bf16"), FP16FlopsPerS: r.value("ceiling/gemm_fp16"), LaunchS: r.value("protocol/short_kernel/null")}
	r.low.ReadBytesPerS, r.low.WriteBytesPerS, r.low.CacheBytesPerS = r.low.CopyBytesPerS, r.low.CopyBytesPerS, r.low.CopyBytesPerS
	facts := r.run("e3nn-mace-large").Device.DeviceInfo
	var clock, bits float64
	if _, err := fmt.Sscan(facts["memory_clock_hz"]+" "+facts["memory_bus_bits"], &clock, &bits); err != nil {
		t.Fatal(err)
	}
	pins := 2 * clock * bits / 8
	r.high = r.low
	r.high.CopyBytesPerS, r.high.ReadBytesPerS, r.high.WriteBytesPerS, r.high.CacheBytesPerS = pins, pins, pins, 1e6*pins
	return r
}

func eachLine(t *testing.T, name string, use func([]byte) error) {
	t.Helper()
	text, err := os.ReadFile(recordedFolder + name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if err := use(line); err != nil {
			t.Fatal(name, err)
		}
	}
}

func (r *recordedCheck) value(name string) float64 {
	r.t.Helper()
	f, found := r.figures[name]
	if !found || f.Value == nil {
		r.t.Fatalf("%s was not recorded", name)
	}
	return *f.Value
}

func (r *recordedCheck) runs(path string) []*gpuprof.Run {
	r.t.Helper()
	packed, err := os.ReadFile(recordedFolder + path + ".json.gz")
	if err != nil {
		r.t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		r.t.Fatal(err)
	}
	runs, err := document.Runs(text, path)
	if err != nil {
		r.t.Fatal(err)
	}
	return runs
}

func (r *recordedCheck) run(name string) *gpuprof.Run { return r.runs("runs/" + name)[0] }

// over is how many times its bound a time is: one figure where the bound does not depend
// on what was not measured, else from the one rate to the other. A bound above the time is
// withheld, as in a run.
func (r *recordedCheck) over(measured float64, least gpuprof.Cost) string {
	low, high := r.low.Bound(least, h200Cache).Beside(measured), r.high.Bound(least, h200Cache).Beside(measured)
	switch a, b := fmt.Sprintf("%.2f", measured/low.S), fmt.Sprintf("%.2f", measured/high.S); {
	case low.S == 0 || high.S == 0:
		return "none: it is above the time"
	case a == b:
		return a + ", " + low.By
	case low.By == high.By:
		return a + " to " + b + ", " + low.By
	default:
		return a + " to " + b + ", " + low.By + " or " + high.By
	}
}

// bytesOf is the traffic that a recorded bound of bytes stands for, at the copy rate of then.
func (r *recordedCheck) bytesOf(bound float64) int64 { return int64(bound * r.low.CopyBytesPerS) }

func (r *recordedCheck) products() string {
	var b strings.Builder
	b.WriteString("| tensor product, fp32 | edges | `csr` | x bound | x bound as recorded | `fused` | `unfused` | e3nn, eager | e3nn / `csr` |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, l := range (&rig{t: r.t, real: true}).layers() {
		at := "tensor_product/" + l.name + "/"
		csr := r.value(at + "csr")
		weights := so3.UVUProduct(irreps(r.t, l.in), irreps(r.t, l.sh), irreps(r.t, l.target)).WeightNumel()
		// csr+mlp does the arithmetic of csr and the second layer's, and was bound by it.
		second := 2 * float64(l.edges()) * hidden * float64(weights)
		least := gpuprof.Cost{Flops: int64(*r.figures[at+"csr+mlp"].Bound*r.low.FlopsPerS - second), BytesRead: r.bytesOf(r.figures[at+"csr"].Extra["bytes_floor_s"])}
		eager := r.peers["tensor_product/"+l.name+" e3nn"]
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.2f | %s | %s | %s | %.1f |\n", l.name, thousands(l.edges()), quantity(csr), r.over(csr, least), csr / *r.figures[at+"csr"].Bound,
			quantity(r.value(at+"fused")), quantity(r.value(at+"unfused")), quantity(eager), eager/csr)
	}
	return b.String()
}

func (r *recordedCheck) sums() string {
	var b strings.Builder
	b.WriteString("| sum by destination, fp32 | ours | x bound | x bound as recorded | PyTorch | PyTorch / ours |\n|---|---|---|---|---|---|\n")
	for _, s := range []struct{ shape, text string }{{"158000x1152", "158,000 x 1,152 into 1,000 rows"}, {"75000x992", "75,000 x 992 into 3,000 rows"}} {
		for _, k := range []struct{ name, text, peer string }{{"atomic", "atomic, destinations sorted", "index_add"}, {"sorted", "one writer per row", "segment_reduce"}, {"sorted", "one writer per row", "index_add deterministic"}} {
			name := "scatter/" + s.shape + "/" + k.name
			ours, bound, peer := r.value(name), *r.figures[name].Bound, r.peers[name+" "+k.peer]
			fmt.Fprintf(&b, "| %s, %s | %s | %s | %.2f | %s %s | %.1f |\n", s.text, k.text, quantity(ours), r.over(ours, gpuprof.Cost{BytesRead: r.bytesOf(bound)}), ours/bound, k.peer, quantity(peer), peer/ours)
		}
	}
	return b.String()
}

func (r *recordedCheck) matrices() string {
	var b strings.Builder
	b.WriteString("| matrix product with SiLU | ours | x bound | x bound as recorded | product's library | torch.mm alone | torch.mm / ours |\n|---|---|---|---|---|---|---|\n")
	for _, shape := range [][3]int{{12544, 1024, 3072}, {74250, 100, 3238}} {
		flops := 2 * int64(shape[0]) * int64(shape[1]) * int64(shape[2])
		for _, p := range []struct{ name, precision, library string }{{"fp32-own", "fp32", "our own"}, {"fp32", "fp32", "cuBLAS"}, {"tf32", "tf32", "cuBLAS"}, {"bf16", "bf16", "cuBLAS"}, {"fp16", "fp16", "cuBLAS"}} {
			at := fmt.Sprintf("gemm/%dx%dx%d/", shape[0], shape[1], shape[2])
			ours, bound, peer := r.value(at+p.name), *r.figures[at+p.name].Bound, r.peers[at+p.precision+" torch.mm"]
			elements := 4 * int64(shape[0]*shape[1]+shape[1]*shape[2]+shape[0]*shape[2])
			fmt.Fprintf(&b, "| %s x %s x %s, %s | %s | %s | %.2f | %s | %s | %.2f |\n", thousands(shape[0]), thousands(shape[1]), thousands(shape[2]), p.precision, quantity(ours),
				r.over(ours, gpuprof.Cost{Flops: flops, BytesRead: elements}.In(p.precision, flops)), ours/bound, p.library, quantity(peer), peer/ours)
		}
	}
	return b.String()
}

func (r *recordedCheck) gru() string {
	var b strings.Builder
	b.WriteString("| GRU, device time of the stage (cuDNN computes both sides) | ours | x bound | x bound as recorded | torch.nn.GRU | torch / ours |\n|---|---|---|---|---|---|\n")
	runs := []*gpuprof.Run{r.run("gruflow-energyflow"), r.run("gruflow-deepbench")}
	for _, run := range r.runs("sweeps/gruflow-energyflow-precision") {
		if run.Knobs["precision"] != "fp32" {
			runs = append(runs, run)
		}
	}
	for _, run := range runs {
		s, precision := run.Stage("gru"), run.Knobs["precision"]
		flops := int64(s.Counters["flops"])
		least := gpuprof.Cost{Flops: flops, BytesRead: int64(s.Counters["bytes_read"]), BytesWritten: int64(s.Counters["bytes_written"])}.In(precision, flops)
		if run.Preset == "deepbench" {
			least.Sequence = 1500
		}
		name := "gruflow/" + run.Preset
		if precision != "fp32" {
			name += "/" + precision
		}
		peer, ratio := "not measured", ""
		if v := r.peers[name+" torch.nn.GRU"]; v > 0 {
			peer, ratio = quantity(v), fmt.Sprintf("%.2f", v/s.Device.Median)
		}
		fmt.Fprintf(&b, "| %s, %s | %s | %s | %.2f | %s | %s |\n", run.Preset, precision, quantity(s.Device.Median), r.over(s.Device.Median, least), s.Device.Median/s.BoundS, peer, ratio)
	}
	return b.String()
}

func (r *recordedCheck) steps() string {
	var b strings.Builder
	b.WriteString("| preset | step | of it exposed: radial MLP, tensor product, linear and gate | copy to the device, as recorded | gap | probe overhead | energy per step, gross and net of idle | SM clock, median |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range []string{"e3nn-deepaw", "e3nn-mace-large", "e3nn-mace-medium", "e3nn-nequip-lips", "gruflow-energyflow"} {
		run := r.run(name)
		if !run.Renewed {
			r.t.Fatalf("%s: its exposed times were not renewed", name)
		}
		of := run.Step
		if run.ProbedStep != nil {
			of = run.ProbedStep
		}
		share := func(stage string) float64 { return 100 * run.Stage(stage).Exposed.Median / of.Median }
		var exposed string
		if run.Workload == "gruflow" {
			exposed = fmt.Sprintf("GRU %.1f %%", share("gru"))
		} else {
			exposed = fmt.Sprintf("%.1f %%, %.1f %%, %.1f %%", share("radial"), share("tensor_product"), share("linear_gate"))
		}
		var asRecorded gpuprof.Run
		r.unread(name, &asRecorded)
		gap := "none in most steps"
		if g := share(gpuprof.StageGap); g > 0 {
			gap = fmt.Sprintf("%.2f %%", g)
		}
		overhead := "not measured: too few pairs"
		if o := run.Overhead; o != nil {
			overhead = fmt.Sprintf("%+.2f %% [%.2f, %.2f]", 100*(o.Ratio-1), 100*(o.CI95[0]-1), 100*(o.CI95[1]-1))
		}
		fmt.Fprintf(&b, "| %s | %s [%s, %s] | %s | %.1f %%, as recorded %.1f %% | %s | %s | %.3g and %.3g J | %.2f GHz |\n", strings.Replace(name, "-", " ", 1), quantity(run.Step.Median), quantity(run.Step.CI95[0]), quantity(run.Step.CI95[1]),
			exposed, share("h2d"), 100*asRecorded.Stage("h2d").Exposed.Median/of.Median, gap, overhead, run.Energy.GrossStepJ, float64(run.Energy.NetStepJ), clockOf(run)/1e9)
	}
	return b.String()
}

// unread decodes a run as it was recorded.
func (r *recordedCheck) unread(name string, to *gpuprof.Run) {
	r.t.Helper()
	packed, err := os.ReadFile(recordedFolder + "runs/" + name + ".json.gz")
	if err != nil {
		r.t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(z).Decode(to)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func clockOf(run *gpuprof.Run) float64 {
	var seen []float64
	for _, v := range run.Telemetry["gpu_sm_clock"].Value {
		if v > 0 {
			seen = append(seen, float64(v))
		}
	}
	slices.Sort(seen)
	return stats.Median(seen)
}

func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// quantity is seconds with four digits.
func quantity(s float64) string {
	switch {
	case s >= 1e-3:
		return fmt.Sprintf("%.4g ms", s*1e3)
	default:
		return fmt.Sprintf("%.4g us", s*1e6)
	}
}
