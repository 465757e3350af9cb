//go:build !race && linux

// The race detector sees nothing of a process that it is not built into.

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/probes/nvml"
)

// pretendNVML is the folder of testdata/nvml/nvml.c, compiled.
var pretendNVML = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "gpuprof-nvml")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("cc", "-shared", "-fPIC", "-o", filepath.Join(dir, "libnvidia-ml.so.1"), "testdata/nvml/nvml.c").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return dir, err
})

// faultyNode is what a check finds: NVML's answers and the files of the machine's root.
type faultyNode struct {
	gpus string   // NVML_GPUS
	init string   // NVML_INIT
	log  []string // messages of the kernel; nil: no permission to read them
	proc []string // "ADDRESS UUID" of the GPUs that the driver lists
}

// run runs gpuprof on the machine, as a process with another that asks NVML.
func (m faultyNode) run(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	lib, err := pretendNVML()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(dir, "root")
	write := func(name, text string) {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range m.proc {
		address, uuid, _ := strings.Cut(g, " ")
		write("proc/driver/nvidia/gpus/"+address+"/information", "GPU UUID: \t "+uuid+"\n")
	}
	if m.log != nil {
		text := ""
		for i, line := range m.log {
			text += fmt.Sprintf("4,%d,%d,-;%s\n", i, i, line)
		}
		write("dev/kmsg", text)
	}
	cmd := selfCommand(t, dir, args...)
	cmd.Env = append(cmd.Env, "LD_LIBRARY_PATH="+lib, "GPUPROF_TEST_DRIVER=", "GPUPROF_TEST_ROOT="+root, "NVML_GPUS="+m.gpus, "GPUPROF_NODE=n7")
	if m.init != "" {
		cmd.Env = append(cmd.Env, "NVML_INIT="+m.init)
	}
	var out, words bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &words
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	// The folder and the time are not the machine's.
	clean := regexp.MustCompile(regexp.QuoteMeta(root) + `|_seconds\{node="n7"\} .*`).ReplaceAllStringFunc
	hide := func(s string) string {
		return clean(s, func(found string) string {
			if found == root {
				return ""
			}
			return `_seconds{node="n7"} T`
		})
	}
	return cmd.ProcessState.ExitCode(), hide(out.String()), hide(words.String())
}

const gone = "NVRM: Xid (PCI:0000:20:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

// faultyNodes are the situations in which a check must not call a GPU healthy for lack of an
// answer, and a few in which it may.
func faultyNodes() map[string]faultyNode {
	quiet := []string{}
	return map[string]faultyNode{
		"healthy":             {gpus: "|", log: quiet},
		"no-handle":           {gpus: "|handle=15", log: quiet, proc: []string{"0000:10:00.0 GPU-a", "0000:20:00.0 GPU-b"}},
		"no-handle-unknown":   {gpus: "|handle=999", log: quiet},
		"every-query-lost":    {gpus: "|state=15,identity=15", log: quiet, proc: []string{"0000:10:00.0 GPU-a", "0000:20:00.0 GPU-b"}},
		"every-query-timeout": {gpus: "|state=10", log: quiet},
		"one-query-lost":      {gpus: "|clocks=15", log: quiet},
		"all-lost":            {gpus: "handle=15|handle=15", log: quiet},
		"lost-and-unchecked":  {gpus: "handle=15|state=4", log: quiet},
		"jetson":              {gpus: "identity=3,errors=3,memory=3", log: quiet}, // although its recovery action is answered
		"no-permission":       {gpus: "state=4", log: nil},
		"partly":              {gpus: "fields=3|", log: nil}, // the first as with an old driver
		"no-ECC":              {gpus: "errors=3", log: quiet},
		"not-listed":          {gpus: "", log: quiet, proc: []string{"0000:10:00.0 GPU-a", "0000:20:00.0 GPU-b"}},
		"reset-required":      {gpus: "|clocks=16", log: quiet},
		"recovery-action":     {gpus: "|action=1", log: quiet},
		"recovery-drain":      {gpus: "action=4|", log: quiet},
		"rows":                {gpus: "rows=4,ecc=4|rows=4,pending=1|failed=1|ecc=2", log: quiet},
		"xid":                 {gpus: "|", log: []string{gone}},
		"xid-not-listed":      {gpus: "", log: []string{"NVRM: GPU at PCI:0000:20:00: GPU-bc0fa0b9-cac2-f507-b715-9bebdb69c71e", gone}},
		"xid-reset":           {gpus: "|", log: []string{gone, "nvidia 0000:20:00.0: reset done"}},
		"no-NVML":             {init: "9", log: quiet},
		"no-NVML-xid":         {init: "15", log: []string{gone}},
	}
}

// TestFaultSources: text, JSON, Prometheus and exit codes of each machine, for each caller.
func TestFaultSources(t *testing.T) {
	t.Parallel()
	for name, m := range faultyNodes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			code, out, words := m.run(t, dir, "doctor", "--check", "--no-color", "--quiet", "-o", "gpu.prom", "-o", "gpu.json")
			var got bytes.Buffer
			fmt.Fprintf(&got, "$ gpuprof doctor --check\n%s%sexit code %d\n\n", out, words, code)
			text, err := os.ReadFile(filepath.Join(dir, "gpu.json"))
			var r health.Report
			if err := errors.Join(err, json.Unmarshal(text, &r)); err != nil {
				t.Fatal(err)
			}
			if r.ExitCode != code || r.Node != "n7" {
				t.Errorf("the JSON has code %d and node %q", r.ExitCode, r.Node)
			}
			fmt.Fprintf(&got, "-- JSON: %s\n", r.Verdict)
			for _, c := range r.Devices {
				fmt.Fprintf(&got, "%s pci=%q uuid=%q\n", c.Device, c.PCI, c.UUID)
				for _, s := range c.Sources {
					fmt.Fprintf(&got, "  %s: %s\n", s.Name, s.Answer)
				}
			}
			prom, err := os.ReadFile(filepath.Join(dir, "gpu.prom"))
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(&got, "\n-- Prometheus\n")
			for line := range strings.Lines(string(prom)) {
				if strings.Contains(line, "_gpu_") && !strings.HasPrefix(line, "#") {
					got.WriteString(line)
				}
			}
			got.WriteString("\n")
			for _, args := range []string{"--as prolog", "--as prolog --unknown drain", "--as health", "--as health --unknown drain"} {
				code, out, words := m.run(t, dir, append([]string{"doctor", "--check", "--format", "json"}, strings.Fields(args)...)...)
				_, drain, _ := strings.Cut(out, "scontrol")
				if drain != "" {
					drain = "scontrol" + drain
				}
				fmt.Fprintf(&got, "$ gpuprof doctor --check %s\n%s%sexit code %d\n", args, drain, words, code)
			}
			testkit.Golden(t, *update, filepath.Join("testdata", "doctor", "faults", name+".txt"), got.Bytes())
			if m.gpus == "" && m.init == "" || name == "healthy" {
				return
			}
			// Plain doctor and the measurement, which finds no CUDA here.
			if _, out, _ := m.run(t, dir, "doctor", "--format", "json"); (r.Verdict == health.Unhealthy) != strings.Contains(out, "is at fault") || (r.Verdict == health.NotChecked) != strings.Contains(out, "not checked") && r.Verdict != health.Unhealthy {
				t.Errorf("plain doctor, where the check is %s: %s", r.Verdict, out)
			}
		})
	}
}

// TestFaultsOfBench: the measurement names what is lost, whether or not it can measure.
func TestFaultsOfBench(t *testing.T) {
	t.Parallel()
	all := faultyNodes()
	for name, c := range map[string]struct {
		code int
		says string
	}{
		"no-handle":        {cli.ExitRegression, "lost of gpu1 (PCI 0000:20:00.0, GPU-b)"},
		"every-query-lost": {cli.ExitRegression, "lost of gpu1 (PCI 0000:20:00.0, GPU-b)"},
		"one-query-lost":   {cli.ExitRegression, "lost of gpu1 (PCI 0000:20:00.0, GPU-000000a1-"},
		"all-lost":         {cli.ExitRegression, "gpu0 and gpu1 are not as fast or as sound"},
		"recovery-action":  {cli.ExitRegression, "recovery_action of "},
		"xid-not-listed":   {cli.ExitRegression, "xid of 0000:20:00.0 (GPU-bc0fa0b9-"},
		"jetson":           {cli.ExitFailed, "libcuda.so.1"},
		"no-NVML":          {cli.ExitFailed, "libcuda.so.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, more := range []string{"", "--quick"} {
				args := strings.Fields("doctor --bench --no-color " + more)
				code, out, words := all[name].run(t, t.TempDir(), args...)
				if code != c.code || !strings.Contains(out+words, c.says) || strings.Contains(out, "[healthy]") {
					t.Errorf("%v: code %d\n%s%s", args, code, out, words)
				}
			}
		})
	}
}

// TestReadRecoveryActions: nvidia-smi's words are read; others are no answer.
func TestReadRecoveryActions(t *testing.T) {
	got := readRecoveryActions("00000000:17:00.0, None\n00000000:CA:00.0, Reset\n00000000:CB:00.0, Reboot\n00000000:CC:00.0, Drain P2P\n00000001:01:00.0, Drain and Reset\n00000000:CD:00.0, [N/A]\nField \"gpu_recovery_action\" is not a valid field to query.\n")
	want := map[string]int{"0000:17:00.0": 0, "0000:ca:00.0": 1, "0000:cb:00.0": 2, "0000:cc:00.0": 3, "0001:01:00.0": 4}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestAskNVIDIASMI: nvidia-smi is asked where a driver that has the field leaves it out of
// NVML, in a standard place and without PATH. A program that fails or hangs answers nothing.
func TestAskNVIDIASMI(t *testing.T) {
	unknown := gpuprof.Number(math.NaN())
	device := func(driver string) []nvml.DeviceInfo {
		return []nvml.DeviceInfo{{PCI: "00000000:17:00.0", Driver: driver, Recovery: 0}, {PCI: "00000000:ca:00.0", Driver: driver, Recovery: unknown}}
	}
	const answers = "echo '00000000:17:00.0, Reboot'; echo '00000000:CA:00.0, Reset'"
	for name, c := range map[string]struct {
		driver, program string
		want            gpuprof.Number
	}{
		"answers":       {"580.95.05", answers, 1},
		"fails after":   {"580.95.05", answers + "; exit 6", 1},
		"invalid field": {"580.95.05", `echo 'Field "gpu_recovery_action" is not a valid field to query.'; exit 2`, unknown},
		"hangs":         {"580.95.05", "trap '' TERM; while :; do read line </dev/zero; done", unknown},
		"older driver":  {"550.54.15", answers, unknown},
		"no number":     {"", answers, unknown},
		"no program":    {"580.95.05", "", unknown},
	} {
		t.Run(name, func(t *testing.T) {
			planted := &wiring{root: t.TempDir()}
			t.Setenv("PATH", "/bin:/usr/bin")
			if c.program != "" {
				dir := filepath.Join(planted.root, "usr", "local", "nvidia", "bin")
				if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte("#!/bin/sh\n"+c.program+"\n"), 0o755)); err != nil {
					t.Fatal(err)
				}
			}
			list := device(c.driver)
			planted.askNVIDIASMI(t.Context(), list)
			if got := list[1].Recovery; nvml.Known(got) != nvml.Known(c.want) || nvml.Known(got) && got != c.want || list[0].Recovery != 0 {
				t.Errorf("%v, want %v; the first %v", got, c.want, list[0].Recovery)
			}
		})
	}
}
