package gpucheck

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/stats"
)

const (
	recordedFolder  = "../../baselines/nvidia-h200/gpu-check-2026-11-26/"
	earlierFolder   = "../../baselines/nvidia-h200/gpu-check/" // 2026-11-22: what the later call had no time for
	performancePage = "../../docs/performance.md"
)

var update = flag.Bool("update", false, "write the tables of docs/performance.md again")

// recordedTables are the tables of docs/performance.md that are made from what an H200 gave.
func recordedTables(r *recordedCheck) map[string]string {
	return map[string]string{"peak rates": r.rates(), "tensor products": r.products(), "sums": r.sums(), "matrix products": r.matrices(), "GRU": r.gru(), "steps": r.steps()}
}

// The tables of docs/performance.md say what baselines/nvidia-h200 holds. -update writes them.
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
		t.Fatal("a table of docs/performance.md is not what the recorded runs give; write it with go test ./workloads/gpucheck -run TestRecordedTables -update")
	}
	if err := os.WriteFile(performancePage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recordedCheck holds the files that gpu-check wrote on an H200.
type recordedCheck struct {
	t       *testing.T
	figures map[string]figure
	peers   map[string]float64 // by name and peer
	earlier map[string]float64 // the peers of the earlier call
}

func newRecordedCheck(t *testing.T) *recordedCheck {
	t.Helper()
	r := &recordedCheck{t: t, figures: map[string]figure{}, peers: map[string]float64{}, earlier: map[string]float64{}}
	eachLine(t, "figures.jsonl", func(_ string, line []byte) error {
		var f figure
		err := json.Unmarshal(line, &f)
		r.figures[f.Name] = f
		return err
	})
	eachLine(t, "peers.jsonl", func(folder string, line []byte) error {
		var p struct {
			Name, Peer string
			Value      *float64
		}
		err := json.Unmarshal(line, &p)
		if p.Value != nil {
			r.peers[p.Name+" "+p.Peer] = *p.Value
			if folder == earlierFolder {
				r.earlier[p.Name+" "+p.Peer] = *p.Value
			}
		}
		return err
	})
	return r
}

func eachLine(t *testing.T, name string, use func(folder string, line []byte) error) {
	t.Helper()
	for _, folder := range []string{earlierFolder, recordedFolder} {
		text, err := os.ReadFile(folder + name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(text) {
			if err := use(folder, line); err != nil {
				t.Fatal(name, err)
			}
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
	if errors.Is(err, fs.ErrNotExist) {
		packed, err = os.ReadFile(earlierFolder + path + ".json.gz")
	}
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

// over is how many times its bound a time is. A bound above the time is withheld, as in a run.
func over(measured, bound float64) string {
	if bound == 0 {
		return "none: it is above the time"
	}
	return fmt.Sprintf("%.2f", measured/bound)
}

func (r *recordedCheck) over(name string) string {
	if b := r.figures[name].Bound; b != nil {
		return over(r.value(name), *b)
	}
	return over(0, 0)
}

// beside is a peer's time and its ratio to ours.
func (r *recordedCheck) beside(peer string, ours float64) (took, ratio string) {
	v, found := r.peers[peer]
	if !found {
		return "not yet measured", ""
	}
	return quantity(v), fmt.Sprintf("%.2f", v/ours)
}

// rates prints the rates that gpu-check measured on the same day as the kernels.
func (r *recordedCheck) rates() string {
	list := func(scale float64, names ...string) (out []any) {
		for _, name := range names {
			out = append(out, r.value(name)/scale)
		}
		return out
	}
	var b strings.Builder
	b.WriteString("| what | rate |\n|---|---|\n")
	fmt.Fprintf(&b, "| copy in device memory (bytes read and written) | %.4g TB/s |\n", list(1e12, "ceiling/copy")...)
	fmt.Fprintf(&b, "| matrix product fp32, TF32, bf16, fp16 | %.4g, %.4g, %.4g, %.4g Tflop/s |\n", list(1e12, "ceiling/gemm_fp32", "ceiling/gemm_tf32", "ceiling/gemm_bf16", "ceiling/gemm_fp16")...)
	fmt.Fprintf(&b, "| host to device and back, pinned | %.4g and %.4g GB/s |\n", list(1e9, "host_link/h2d/pinned", "host_link/d2h/pinned")...)
	fmt.Fprintf(&b, "| host to device and back, pageable | %.4g and %.4g GB/s |\n", list(1e9, "host_link/h2d/pageable", "host_link/d2h/pageable")...)
	fmt.Fprintf(&b, "| event tick, empty kernel, an event in a stream | at most %.4g us, %.4g ns, %.3g us |\n",
		1e6*r.value("protocol/event_tick"), 1e9*r.value("protocol/short_kernel/null"), 1e6*r.figures["protocol/ladder/stages"].Extra["event_s"])
	return b.String()
}

func (r *recordedCheck) products() string {
	var b strings.Builder
	b.WriteString("| tensor product, fp32 | edges | `csr` | x bound | `csr`, general kernel | `fused` | `unfused` | e3nn, eager | e3nn / `csr` |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, l := range (&rig{t: r.t, real: true}).layers() {
		at := "tensor_product/" + l.name + "/"
		csr := r.value(at + "csr")
		eager, ratio := r.beside("tensor_product/"+l.name+" e3nn", csr)
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", l.name, thousands(l.edges()), quantity(csr), r.over(at+"csr"),
			quantity(r.value(at+generalCSR)), quantity(r.value(at+"fused")), quantity(r.value(at+"unfused")), eager, ratio)
	}
	return b.String()
}

func (r *recordedCheck) sums() string {
	var b strings.Builder
	b.WriteString("| sum by destination, fp32 | ours | x bound | PyTorch | PyTorch / ours |\n|---|---|---|---|---|\n")
	for _, s := range []struct{ shape, text string }{{"158000x1152", "158,000 x 1,152 into 1,000 rows"}, {"75000x992", "75,000 x 992 into 3,000 rows"}} {
		for _, k := range []struct{ name, text, peer string }{{"atomic", "atomic, destinations sorted", "index_add"}, {"atomic-shuffled", "atomic, destinations shuffled", "index_add"},
			{"sorted", "one writer per row", "segment_reduce"}, {"sorted", "one writer per row", "index_add deterministic"}} {
			name := "scatter/" + s.shape + "/" + k.name
			ours := r.value(name)
			peer, ratio := r.beside(name+" "+k.peer, ours)
			fmt.Fprintf(&b, "| %s, %s | %s | %s | %s %s | %s |\n", s.text, k.text, quantity(ours), r.over(name), k.peer, peer, ratio)
		}
	}
	return b.String()
}

func (r *recordedCheck) matrices() string {
	var b strings.Builder
	b.WriteString("| matrix product with SiLU | ours | x bound | product's library | torch.mm alone | torch.mm / ours |\n|---|---|---|---|---|---|\n")
	for _, shape := range [][3]int{{12544, 1024, 3072}, {74250, 100, 3238}} {
		for _, p := range []struct{ name, precision, library string }{{"fp32-own", "fp32", "our own"}, {"fp32", "fp32", "cuBLAS"}, {"tf32", "tf32", "cuBLAS"}, {"bf16", "bf16", "cuBLAS"}, {"fp16", "fp16", "cuBLAS"}} {
			at := fmt.Sprintf("gemm/%dx%dx%d/", shape[0], shape[1], shape[2])
			peer, ratio := r.beside(at+p.precision+" torch.mm", r.value(at+p.name))
			fmt.Fprintf(&b, "| %s x %s x %s, %s | %s | %s | %s | %s | %s |\n", thousands(shape[0]), thousands(shape[1]), thousands(shape[2]), p.precision, quantity(r.value(at+p.name)),
				r.over(at+p.name), p.library, peer, ratio)
		}
	}
	return b.String()
}

func (r *recordedCheck) gru() string {
	var b strings.Builder
	b.WriteString("| device time of the stage | ours | x bound | PyTorch | PyTorch / ours |\n|---|---|---|---|---|\n")
	const precisions = "sweeps/gruflow-energyflow-precision" // of the earlier call
	for _, of := range []struct{ path, precision, stage, text, peer string }{
		{"runs/gruflow-energyflow", "fp32", "gru", "energyflow, GRU, fp32; cuDNN computes both sides", "gruflow/energyflow torch.nn.GRU"},
		{precisions, "tf32", "gru", "energyflow, GRU, tf32; cuDNN computes both sides", "gruflow/energyflow/tf32 torch.nn.GRU"},
		{precisions, "bf16", "gru", "energyflow, GRU, bf16; cuDNN computes both sides, ours rounds and widens besides", "gruflow/energyflow/bf16 torch.nn.GRU"},
		{"runs/gruflow-deepbench", "fp32", "gru", "deepbench, GRU, fp32; cuDNN computes both sides", "gruflow/deepbench torch.nn.GRU"},
		{"runs/e3nn-mace-large-forces", "fp32", "tensor_product_bwd", "mace-large, gradients of the tensor product, fp32; ours by weights and harmonics as forces need them, e3nn's by features too", "tensor_product_bwd/mace-large e3nn autograd"},
	} {
		run := r.precise(of.path, of.precision)
		s := run.Stage(of.stage)
		bound, peers := over(s.Device.Median, s.BoundS), r.peers
		if !run.CopiesYield() { // of the earlier call, whose bounds are by the rules of its day: as gpuprof report, this shows none
			of.text, bound, peers = of.text+" (2026-11-22)", "none: by earlier rules", r.earlier
		}
		took, found := peers[of.peer]
		if !found {
			r.t.Fatalf("%s was not recorded", of.peer)
		}
		_, name, _ := strings.Cut(of.peer, " ")
		fmt.Fprintf(&b, "| %s | %s | %s | %s: %s | %.2f |\n", of.text, quantity(s.Device.Median), bound, name, quantity(took), took/s.Device.Median)
	}
	return b.String()
}

// precise is the run of a precision among those of a file.
func (r *recordedCheck) precise(path, precision string) *gpuprof.Run {
	r.t.Helper()
	runs := r.runs(path)
	at := slices.IndexFunc(runs, func(run *gpuprof.Run) bool { return run.Knobs["precision"] == precision })
	if at < 0 {
		r.t.Fatalf("%s has no run with precision=%s", path, precision)
	}
	return runs[at]
}

func (r *recordedCheck) steps() string {
	var b strings.Builder
	b.WriteString("| preset | step | of it exposed: radial MLP, tensor product, linear and gate | gap | probe overhead | energy per step, gross and net of idle | SM clock, median |\n|---|---|---|---|---|---|---|\n")
	for _, name := range []string{"e3nn-deepaw", "e3nn-mace-large", "e3nn-mace-medium", "e3nn-nequip-lips", "gruflow-energyflow"} {
		run := r.run(name)
		of := run.Step
		if run.ProbedStep != nil {
			of = run.ProbedStep
		}
		share := func(stage string) float64 {
			s := run.Stage(stage)
			if s == nil || s.Exposed == nil {
				return 0
			}
			return 100 * s.Exposed.Median / of.Median
		}
		exposed := fmt.Sprintf("%.1f %%, %.1f %%, %.1f %%", share("radial"), share("tensor_product"), share("linear_gate"))
		if run.Workload == "gruflow" {
			exposed = fmt.Sprintf("GRU %.1f %%", share("gru"))
		}
		gap := "none in most steps"
		if g := share(gpuprof.StageGap); g > 0 {
			gap = fmt.Sprintf("%.2f %%", g)
		}
		overhead := "not measured: too few pairs"
		if o := run.Overhead; o != nil {
			overhead = fmt.Sprintf("%+.2f %% [%.2f, %.2f]", 100*(o.Ratio-1), 100*(o.CI95[0]-1), 100*(o.CI95[1]-1))
		}
		energy, clock := "not measured", ""
		if run.Energy != nil && run.Energy.Valid {
			energy, clock = fmt.Sprintf("%.3g and %.3g J", run.Energy.GrossStepJ, float64(run.Energy.NetStepJ)), fmt.Sprintf("%.2f GHz", clockOf(run)/1e9)
		}
		fmt.Fprintf(&b, "| %s | %s [%s, %s] | %s | %s | %s | %s | %s |\n", strings.Replace(name, "-", " ", 1), quantity(run.Step.Median), quantity(run.Step.CI95[0]), quantity(run.Step.CI95[1]),
			exposed, gap, overhead, energy, clock)
	}
	return b.String()
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
