package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/formats"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/probes/nvml"
)

// fakeView is a machine: two GPUs seen by CUDA, and MIG instances seen by NVML.
type fakeView struct{ telemetry error }

func (fakeView) Shown() []GPUName {
	return []GPUName{{0, testkit.FirstGPU, "NVIDIA A"}, {1, testkit.SecondGPU, "NVIDIA A"}}
}

func (fakeView) Hidden() []string { return []string{testkit.MIGSlice} }

func (v fakeView) Elsewhere(name string) (string, error) {
	if v.telemetry != nil {
		return "", v.telemetry
	}
	list := []nvml.DeviceInfo{
		{Index: 0, UUID: testkit.SecondGPU, PCI: "00000000:17:00.0"}, // NVML counts in another order
		{Index: 1, UUID: testkit.FirstGPU, PCI: "00000000:ca:00.0"},
		{Index: 2, UUID: "GPU-3333", Instances: []nvml.Instance{{UUID: testkit.MIGSlice, Profile: "1g.10gb"}}},
	}
	at, err := nvml.Select(list, name)
	if err != nil {
		return "", err
	}
	if at.Instance >= 0 {
		return list[at.GPU].Instances[at.Instance].UUID, nil
	}
	return list[at.GPU].UUID, nil
}

func TestChooseGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		names []string
		here  []int
		away  []string
		says  string
	}{
		"every one":           {nil, []int{0, 1}, []string{testkit.MIGSlice}, ""},
		"index":               {[]string{"1"}, []int{1}, nil, ""},
		"index of CUDA":       {[]string{"cuda:0"}, []int{0}, nil, ""},
		"UUID":                {[]string{testkit.SecondGPU}, []int{1}, nil, ""},
		"beginning of a UUID": {[]string{"gpu-1111b"}, []int{1}, nil, ""},
		"bare UUID":           {[]string{"1111aaaa"}, []int{0}, nil, ""},
		"twice":               {[]string{"0", "cuda:0", testkit.FirstGPU}, []int{0}, nil, ""},
		"several":             {[]string{"1", "0"}, []int{1, 0}, nil, ""},
		"MIG by name":         {[]string{"MIG 1g.10gb"}, nil, []string{testkit.MIGSlice}, ""},
		"MIG by profile":      {[]string{"1g.10gb", "2:0"}, nil, []string{testkit.MIGSlice}, ""},
		"MIG by UUID":         {[]string{"MIG-2222"}, nil, []string{testkit.MIGSlice}, ""},
		"PCI bus":             {[]string{"0000:17:00.0"}, []int{1}, nil, ""},
		"no such index":       {[]string{"2"}, nil, nil, "0 (NVIDIA A, " + testkit.FirstGPU},
		"no such CUDA index":  {[]string{"cuda:9"}, nil, nil, "choosing device cuda:9"},
		"not a number":        {[]string{"cuda:x"}, nil, nil, "choosing device cuda:x"},
		"ambiguous":           {[]string{"GPU-1111"}, nil, nil, "give more of the UUID"},
		"unknown":             {[]string{"GPU-9999"}, nil, nil, "choosing device GPU-9999"},
		"empty":               {[]string{""}, nil, nil, "choosing device"},
	} {
		t.Run(name, func(t *testing.T) {
			here, away, err := chooseGPUs(fakeView{}, c.names)
			if c.says != "" {
				if !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("error %v; want it to say %q", err, c.says)
				}
				return
			}
			if err != nil || !slices.Equal(here, c.here) || !slices.Equal(away, c.away) {
				t.Errorf("%v, %v, %v", here, away, err)
			}
		})
	}
	// Without telemetry what CUDA shows can still be named.
	blind := fakeView{gpuprof.Errorf(gpuprof.ErrDevice, "NVML is not in this build; build it with")}
	if here, _, err := chooseGPUs(blind, []string{"1"}); err != nil || len(here) != 1 {
		t.Errorf("%v, %v", here, err)
	}
	if _, _, err := chooseGPUs(blind, []string{"1g.10gb"}); !errors.Is(err, gpuprof.ErrDevice) || !strings.Contains(err.Error(), "not in this build") {
		t.Errorf("%v", err)
	}
}

func TestBenchVerdicts(t *testing.T) {
	t.Setenv("GPUPROF_NODE", "n7")
	broken := testkit.MadeUpGPU("cuda:1", 4e12)
	broken.Error = "device lost"
	narrow := testkit.MadeUpGPU("cuda:0", 4e12)
	narrow.Condition.LinkWidth = 8
	silent := testkit.MadeUpGPU("cuda:0", 4e12)
	silent.Sources = []health.Source{{Name: health.SourceNVML, Answer: health.Unanswered, Text: "no library"}}
	lost := health.Card{Device: "gpu1", PCI: "0000:ca:00.0", UUID: testkit.SecondGPU, Sources: []health.Source{health.FaultOf(health.SourceNVML, "NVML reports: the GPU has fallen off the bus", health.FixRestart)}}
	for name, c := range map[string]struct {
		cards []health.Card
		code  int
		says  string
		links []health.Link
		sum   *health.AllReduce
	}{
		"healthy": {[]health.Card{testkit.MadeUpGPU("cuda:0", 4e12), testkit.MadeUpGPU("cuda:1", 4.1e12)}, cli.ExitOK, "",
			[]health.Link{{From: "cuda:0", To: "cuda:1", Direct: true, BytesPerS: 4.1e11}, {From: "cuda:1", To: "cuda:0", BytesPerS: 2.3e10}},
			&health.AllReduce{Library: "nccl 2.27.3", GPUs: 2, Bytes: 256 << 20, TookS: 1.21e-3, BusPerS: 2.22e11}},
		"unhealthy":       {[]health.Card{testkit.MadeUpGPU("cuda:0", 4e12), testkit.MadeUpGPU("cuda:1", 3e12), testkit.MadeUpGPU("cuda:2", 4e12)}, cli.ExitRegression, "cuda:1 is not as fast", nil, nil},
		"unknown":         {[]health.Card{testkit.MadeUpGPU("cuda:0", 4e12)}, cli.ExitInconclusive, "not yet measured", nil, nil},
		"narrow alone":    {[]health.Card{narrow}, cli.ExitRegression, "link_width of cuda:0: reseat", nil, nil},
		"failed":          {[]health.Card{testkit.MadeUpGPU("cuda:0", 4e12), broken}, cli.ExitFailed, "cuda:1: device lost", nil, nil},
		"not checked":     {[]health.Card{silent, testkit.MadeUpGPU("cuda:1", 4e12)}, cli.ExitInconclusive, "not checked: cuda:0: nvml (no library)", nil, nil},
		"lost beside":     {[]health.Card{testkit.MadeUpGPU("cuda:0", 4e12), lost}, cli.ExitRegression, "begin with lost of gpu1: drain the node", nil, nil},
		"lost and failed": {[]health.Card{broken, lost}, cli.ExitRegression, "cuda:1 could not be measured to the end", nil, nil},
		"nothing":         {nil, cli.ExitFailed, "there is none", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, format := range []string{"table", "json"} {
				var out bytes.Buffer
				ranges, err := ShippedRanges()
				if err != nil {
					t.Fatal(err)
				}
				err = (&Cmd{Format: format}).Conclude(&cli.App{Tables: documentTables(), Ctx: t.Context(), Stdout: &out, Stderr: &out}, Measured{Cards: c.cards, links: c.links, reduce: c.sum}, ranges, nil, nil)
				if got := cli.ExitCode(err); got != c.code || err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("exit code %d, want %d; %v", got, c.code, err)
				}
				if len(c.cards) == 0 {
					continue
				}
				if format == "json" {
					var r health.Report
					if err := json.Unmarshal(out.Bytes(), &r); err != nil || r.ExitCode != c.code || len(r.Devices) != len(c.cards) {
						t.Errorf("%v: %s", err, &out)
					}
					continue
				}
				testkit.Golden(t, *updateGolden, filepath.Join("testdata", "doctor", strings.ReplaceAll(name, " ", "-")+".txt"), out.Bytes())
			}
		})
	}
}

// A GPU that only another process sees is measured there.
func TestBenchElsewhere(t *testing.T) {
	report := func(cards ...health.Card) string {
		b, err := json.Marshal(health.Report{Head: document.NewHead(document.Health, gpuprof.Tool{Name: "gpuprof"}), Devices: cards})
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	broken := testkit.MadeUpGPU("cuda:0", 4e12)
	broken.Error = "device lost"
	for name, c := range map[string]struct {
		prints, complains string
		code              int
		fails             string
	}{
		"unknown there":   {report(testkit.MadeUpGPU("cuda:0", 4e12)), "gpuprof: checking the GPUs: nothing to compare with", 3, ""},
		"device failed":   {report(broken), "gpuprof: checking", 4, "device lost"},
		"nothing printed": {"", "gpuprof: opening a CUDA device: no GPU; get one", 4, "opening a CUDA device: no GPU; get one"},
		"silent":          {"", "", 4, "exit status 4"},
		"several":         {report(testkit.MadeUpGPU("cuda:0", 1), testkit.MadeUpGPU("cuda:1", 1)), "", 0, "saw 2 devices"},
		"something else":  {"hello", "", 0, "reading the output of the process"},
	} {
		t.Run(name, func(t *testing.T) {
			script := fmt.Sprintf("test \"$CUDA_VISIBLE_DEVICES\" = %s || exit 99; cat <<'END'\n%s\nEND\necho '%s' >&2; exit %d", testkit.MIGSlice, c.prints, c.complains, c.code)
			cards := benchBy(t.Context(), child.Command{Args: []string{"sh", "-c", script}}, testkit.MIGSlice)
			if len(cards) != 1 || cards[0].Device != testkit.MIGSlice || !strings.Contains(cards[0].Error, c.fails) || (cards[0].Err == nil) != (c.fails == "") {
				t.Fatalf("%+v", cards)
			}
			if m, ok := cards[0].Metric("copy"); c.fails == "" && (!ok || m.Value != 4e12) {
				t.Errorf("the figures got lost: %+v", m)
			}
			if m, ok := cards[0].Metric("gemm_bf16"); c.fails == "" && (ok || m.Why == "") {
				t.Errorf("what is unknown there is known here: %+v", m)
			}
		})
	}
}

// documentTables are the formats.
func documentTables() *cli.Tables { return &cli.Tables{Documents: formats.Documents(gpuprof.Tool{})} }

var updateGolden = flag.Bool("update", false, "rewrite golden files")
