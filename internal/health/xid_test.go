package health

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// TestXIDs: a code that a device is faulty by is its fault, one of a program is nobody's,
// and those of another device are not its own.
func TestXIDs(t *testing.T) {
	log := `6,1200,98213,-;NVRM: Xid (PCI:0000:ca:00): 31, pid=4242, name=python, Ch 00000008, intr 00000000
4,1201,98214,-;NVRM: Xid (PCI:0000:ca:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,1202,98215,-;NVRM: Xid (PCI:0000:ca:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
4,1203,98216,-;NVRM: Xid (PCI:0000:17:00): 63, pid=99, Row Remapper: New row marked for remapping
4,1204,98217,-;nvidia 0000:ca:00.0: something else, Xid 48
4,1205,98217,-;NVRM: Xid (PCI:0000:17:00.0): 999999999999999999999, what is this`
	found := XIDs(log)
	if want := []XID{{"0000:ca:00", 31}, {"0000:ca:00", 79}, {"0000:17:00", 63}}; !slices.Equal(found, want) {
		t.Fatalf("%v, want %v", found, want)
	}
	var bad, noted, clean Condition
	if notes := bad.Blame("00000000:CA:00.0", found); len(notes) > 0 || !strings.Contains(bad.Fault, "XID 79") || strings.Contains(bad.Fault, "31") {
		t.Errorf("%q %q", bad.Fault, notes)
	}
	if notes := noted.Blame("00000000:17:00.0", found); len(notes) != 1 || noted.Fault != "" {
		t.Errorf("%q %q", noted.Fault, notes)
	}
	if notes := clean.Blame("00000001:CA:00.0", found); len(notes) > 0 || clean.Fault != "" {
		t.Errorf("%q %q", clean.Fault, notes)
	}
	r := JudgeAccounts([]Card{{Device: "cuda:0", Condition: bad}, {Device: "cuda:1", Condition: noted}}, gpuprof.Tool{})
	if r.Verdict != Unhealthy || !r.Faulty() || len(r.Off) != 1 || r.Off[0].Metric != "xid" || r.Off[0].Device != "cuda:0" {
		t.Errorf("%+v", r)
	}
	if r := JudgeAccounts([]Card{{Device: "cuda:1", Condition: noted}}, gpuprof.Tool{}); r.Verdict != Healthy || r.Faulty() || r.ExitCode != 0 {
		t.Errorf("%+v", r)
	}
}

// TestNotAsked: a report of GPUs that could not be asked says why.
func TestNotAsked(t *testing.T) {
	r := JudgeAccounts([]Card{{Device: AllGPUs, Error: "no library"}}, gpuprof.Tool{})
	if r.Verdict != Failed || r.Reason != "GPUs could not be asked" || len(r.Notes) != 1 || r.Notes[0] != "GPUs: no library" {
		t.Errorf("%s: %s %q", r.Verdict, r.Reason, r.Notes)
	}
}
