package nvml

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const firstID = "1111aaaa-0000-0000-0000-000000000000"

// allFail is a GPU whose every query gives an error.
func allFail(err error) *fakeGPU {
	g := healthy(firstID)
	g.fail = map[quantity]error{}
	for q := range quantities {
		g.fail[q] = err
	}
	g.fieldErr, g.listErr = err, err
	return g
}

// TestFaultOfAnswers: which answers of NVML are a fault of the GPU. One that it is lost is
// enough; an unknown error or a timeout counts where nothing else is answered; what is not
// supported or not permitted is no fault.
func TestFaultOfAnswers(t *testing.T) {
	one := func(err error) *fakeGPU {
		g := healthy(firstID)
		g.fail = map[quantity]error{powerLimit: err}
		return g
	}
	for name, c := range map[string]struct {
		gpu              gpu
		fault, refused   string
		recoveryAnswered bool
	}{
		"healthy":                     {healthy(firstID), "", "", true},
		"no handle, lost":             {broken{errLost}, "fallen off the bus", "", false},
		"no handle, unknown error":    {broken{failure(errorUnknown)}, "unknown error of the driver (NVML error 999)", "", false},
		"no handle, timeout":          {broken{failure(errorTimeout)}, "did not answer in time", "", false},
		"no handle, interrupts":       {broken{failure(errorIRQIssue)}, "interrupt problem", "", false},
		"no handle, power cables":     {broken{failure(errorInsufficientPower)}, "power cables", "", false},
		"no handle, reset":            {broken{errReset}, "requires a reset", "", false},
		"no handle, not permitted":    {broken{errForbidden}, "", "not permitted", false},
		"no handle, another error":    {broken{failure(errorMemory)}, "", "NVML error 20", false},
		"every query lost":            {allFail(errLost), "fallen off the bus", "", false},
		"every query unknown":         {allFail(failure(errorUnknown)), "NVML error 999", "", false},
		"every query times out":       {allFail(failure(errorTimeout)), "NVML error 10", "", false},
		"every query not supported":   {allFail(errUnsupported), "", "", false},
		"every query not permitted":   {allFail(errForbidden), "", "", false},
		"one query lost":              {one(errLost), "fallen off the bus", "", true},
		"one query requires a reset":  {one(errReset), "requires a reset", "", true},
		"one query unknown":           {one(failure(errorUnknown)), "", "", true},
		"the recovery action is lost": {func() gpu { g := healthy(firstID); g.fieldErr = errLost; return g }(), "fallen off the bus", "", false},
		"the identity is lost":        {func() gpu { g := healthy(firstID); g.identityErr = errLost; return g }(), "fallen off the bus", "", true},
		"the instances are lost":      {func() gpu { g := sliced(firstID); g.partsErr = errLost; return g }(), "fallen off the bus", "", true},
		"an instance is lost": {func() gpu {
			g := sliced(firstID)
			g.parts = append(g.parts, allFail(errLost))
			return g
		}(), "fallen off the bus", "", true},
		"an instance is unknown": {func() gpu {
			g := sliced(firstID)
			g.parts = append(g.parts, allFail(failure(errorUnknown)))
			return g
		}(), "", "", true},
		"an identity is no life": {func() gpu {
			g := allFail(failure(errorUnknown))
			g.fail[smClock] = errUnsupported
			return g
		}(), "NVML error 999", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := describeGPU(c.gpu, 1)
			if (d.Fault == "") != (c.fault == "") || !strings.Contains(d.Fault, c.fault) || d.Refused != "" && c.refused == "" || !strings.Contains(d.Refused, c.refused) {
				t.Errorf("fault %q, refused %q", d.Fault, d.Refused)
			}
			if Known(d.Recovery) != c.recoveryAnswered || (d.Unanswered[QueryRecovery] == "") != c.recoveryAnswered {
				t.Errorf("recovery action %v, %q", d.Recovery, d.Unanswered[QueryRecovery])
			}
			if lines := d.Examine(); (c.fault != "" || c.refused != "") != (len(lines) == 1) {
				t.Errorf("%d lines", len(lines))
			}
		})
	}
}

// Whatever the answers to single queries are: a GPU is lost exactly if one of them says so,
// and a query without an answer is known by name.
func TestAnswersProperty(t *testing.T) {
	answers := []error{nil, errUnsupported, errForbidden, errLost, errReset, failure(errorUnknown), failure(errorTimeout), failure(errorMemory)}
	rapid.Check(t, func(t *rapid.T) {
		g := healthy(firstID)
		g.fail = map[quantity]error{}
		lost, answered, failed := false, false, false
		note := func(err error) {
			var f failure
			lost = lost || errors.Is(err, errLost) || errors.Is(err, errReset)
			failed = failed || errors.As(err, &f) && f.showsFault()
			answered = answered || err == nil
		}
		for q := range quantities {
			switch q {
			case powerUsage, temperature, utilisation, memoryActivity, pcieRX, pcieTX, energy:
				continue // which describe does not ask for
			}
			if g.fail[q] = rapid.SampledFrom(answers).Draw(t, "answer"); g.fail[q] == nil {
				if _, told := g.numbers[q]; !told {
					g.fail[q] = errUnsupported
				}
			}
			note(g.fail[q])
		}
		g.fieldErr = rapid.SampledFrom(answers).Draw(t, "field")
		note(g.fieldErr)
		g.listErr = rapid.SampledFrom(answers).Draw(t, "list")
		note(g.listErr)
		d := describeGPU(g, 0)
		if want := lost || failed && !answered; (d.Fault != "") != want {
			t.Errorf("fault %q, want one: %v", d.Fault, want)
		}
		if (d.Unanswered[QueryECC] == "") != (g.fail[eccUncorrected] == nil) || Known(d.Uncorrected) != (g.fail[eccUncorrected] == nil) {
			t.Errorf("ECC errors %v, %q", d.Uncorrected, d.Unanswered[QueryECC])
		}
	})
}

// TestMemoryHealth: rows that wait, that could not be replaced, that were replaced, and errors.
func TestMemoryHealth(t *testing.T) {
	for name, c := range map[string]struct {
		change                         func(*fakeGPU)
		repair, fix, note, errors, ecc string
	}{
		"healthy":           {func(*fakeGPU) {}, "", "", "", "", ""},
		"failed":            {func(g *fakeGPU) { g.numbers[remapFailed], g.numbers[remapPending] = 1, 1 }, "could not be replaced", "replace the GPU", "", "", ""},
		"pending":           {func(g *fakeGPU) { g.numbers[remapPending], g.numbers[remappedRows] = 1, 4 }, "waits for a reset", "reset the GPU (nvidia-smi -i 0 -r)", "", "", ""},
		"pages":             {func(g *fakeGPU) { g.numbers[retirePending] = 1 }, "waits for a reset", "reset the GPU", "", "", ""},
		"replaced":          {func(g *fakeGPU) { g.numbers[remappedRows] = 4 }, "", "", "4 memory rows were replaced", "", ""},
		"replaced, counted": {func(g *fakeGPU) { g.numbers[remappedRows], g.numbers[eccUncorrected] = 4, 4 }, "", "", "4 memory rows", "", ""},
		"more errors":       {func(g *fakeGPU) { g.numbers[remappedRows], g.numbers[eccUncorrected] = 4, 5 }, "", "", "4 memory rows", "5 uncorrected", "reset"},
		"errors":            {func(g *fakeGPU) { g.numbers[eccUncorrected] = 1 }, "", "", "", "1 uncorrected", "reset the GPU"},
		"unknown rows": {func(g *fakeGPU) {
			delete(g.numbers, remapPending)
			g.numbers[remappedRows], g.numbers[eccUncorrected] = 4, 4
		}, "", "", "", "4 uncorrected", "reset"},
	} {
		t.Run(name, func(t *testing.T) {
			g := healthy(firstID)
			c.change(g)
			d := describeGPU(g, 0)
			repair, fix, note := d.RepairHealth()
			errs, errsFix := d.ECCHealth()
			for what, s := range map[string][2]string{"repair": {repair, c.repair}, "fix": {fix, c.fix}, "note": {note, c.note}, "errors": {errs, c.errors}, "their fix": {errsFix, c.ecc}} {
				if (s[0] == "") != (s[1] == "") || !strings.Contains(s[0], s[1]) {
					t.Errorf("%s: %q, want %q", what, s[0], s[1])
				}
			}
		})
	}
}

// plant writes files below a folder that stands for the machine's root.
func plant(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestLocate: the driver's list with the UUIDs that it keeps, else the PCI bus; a UUID that
// the driver does not know, and a GPU that an administrator excluded, are not in it.
func TestLocate(t *testing.T) {
	information := func(uuid, excluded string) string {
		return "Model: \t\t NVIDIA Test\nGPU UUID: \t " + uuid + "\nBus Location: \t 0000:17:00.0\nGPU Excluded:\t " + excluded + "\n"
	}
	bus := map[string]string{
		"sys/bus/pci/devices/0000:17:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:17:00.0/class": "0x030200\n",
		"sys/bus/pci/devices/0000:18:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:18:00.0/class": "0x040300\n", // its sound
		"sys/bus/pci/devices/0000:19:00.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:19:00.0/class": "0x030000\n",
	}
	if diff := cmp.Diff([]Located{{PCI: "0000:17:00.0"}}, Locate(plant(t, bus))); diff != "" {
		t.Error(diff)
	}
	bus["proc/driver/nvidia/gpus/0000:17:00.0/information"] = information("GPU-1111aaaa", "No")
	bus["proc/driver/nvidia/gpus/0000:ca:00.0/information"] = information("GPU-????????-????-????-????-????????????", "No")
	bus["proc/driver/nvidia/gpus/0000:cb:00.0/information"] = information("GPU-3", "Yes")
	if diff := cmp.Diff([]Located{{"0000:17:00.0", "GPU-1111aaaa", true}, {PCI: "0000:ca:00.0", Driver: true}}, Locate(plant(t, bus))); diff != "" {
		t.Error(diff)
	}
	if got := Locate(t.TempDir()); got != nil {
		t.Errorf("without the kernel's lists: %v", got)
	}
}

// TestIdentify: a lost GPU gets the address that only it can have, and nothing where the two
// lists do not agree.
func TestIdentify(t *testing.T) {
	kernel := []Located{{"0000:ca:00.0", "GPU-c", true}, {"0000:17:00.0", "GPU-a", true}, {"0000:2b:00.0", "GPU-b", true}}
	known := func(i int, pci string) DeviceInfo { return DeviceInfo{Index: i, PCI: "0000" + pci, UUID: "known"} }
	lost := func(i int) DeviceInfo { return DeviceInfo{Index: i, Fault: "lost"} }
	for name, c := range map[string]struct {
		list     []DeviceInfo
		want     []string // address and UUID of each
		unlisted int
	}{
		"the second is lost":       {[]DeviceInfo{known(0, "0000:17:00.0"), lost(1), known(2, "0000:ca:00.0")}, []string{"00000000:17:00.0 known", "0000:2b:00.0 GPU-b", "00000000:ca:00.0 known"}, 0},
		"all are lost":             {[]DeviceInfo{lost(0), lost(1), lost(2)}, []string{"0000:17:00.0 GPU-a", "0000:2b:00.0 GPU-b", "0000:ca:00.0 GPU-c"}, 0},
		"NVML lists fewer":         {[]DeviceInfo{known(0, "0000:17:00.0"), lost(1)}, []string{"00000000:17:00.0 known", " "}, 0},
		"another order":            {[]DeviceInfo{known(0, "0000:ca:00.0"), lost(1), known(2, "0000:17:00.0")}, []string{"00000000:ca:00.0 known", "0000:2b:00.0 GPU-b", "00000000:17:00.0 known"}, 0},
		"another order, two lost":  {[]DeviceInfo{known(0, "0000:ca:00.0"), lost(1), lost(2)}, []string{"00000000:ca:00.0 known", " ", " "}, 0},
		"another address":          {[]DeviceInfo{known(0, "0000:99:00.0"), lost(1), known(2, "0000:ca:00.0")}, []string{"00000000:99:00.0 known", " ", "00000000:ca:00.0 known"}, 0},
		"only the UUID is unknown": {[]DeviceInfo{{PCI: "00000000:CA:00.0", Fault: "lost"}}, []string{"00000000:CA:00.0 GPU-c"}, 2},
		"one is gone":              {[]DeviceInfo{known(0, "0000:17:00.0"), known(1, "0000:ca:00.0")}, []string{"00000000:17:00.0 known", "00000000:ca:00.0 known"}, 1},
		"no address, no fault":     {[]DeviceInfo{{Index: 0}, known(1, "0000:2b:00.0"), known(2, "0000:ca:00.0")}, []string{" ", "00000000:2b:00.0 known", "00000000:ca:00.0 known"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			Identify(c.list, kernel)
			var got []string
			for _, d := range c.list {
				got = append(got, d.PCI+" "+d.UUID)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if got := Unlisted(c.list, kernel); len(got) != c.unlisted {
				t.Errorf("not listed: %v, want %d", got, c.unlisted)
			}
		})
	}
}
