package health

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
)

// logged is a kernel's log of these messages, as /dev/kmsg writes them.
func logged(messages ...string) string {
	var text strings.Builder
	for i, m := range messages {
		fmt.Fprintf(&text, "4,%d,%d,-;%s\n SUBSYSTEM=pci\n", i, 1000+i, m)
	}
	return text.String()
}

// events are the faults and notes about the GPU at 0000:ca:00, "!" before a fault.
func events(l Log) string {
	var out []string
	for _, e := range l.Events {
		text := strings.TrimPrefix(e.Text, logText(""))
		if e.Fault {
			text = "!" + text
		}
		if e.PCI != "0000:ca:00" {
			text += " at " + e.PCI
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestReadLog(t *testing.T) {
	xid := func(rest string) string { return "NVRM: Xid (PCI:0000:ca:00): " + rest }
	const (
		gone    = "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
		goneHas = "!XID 79, the GPU has fallen off the bus"
		reset   = "nvidia 0000:ca:00.0: reset done"
	)
	for name, c := range map[string]struct {
		log  []string
		want string
	}{
		"nothing":                   {nil, ""},
		"other drivers":             {[]string{"nvme 0000:ca:00.0: timeout, Xid 79", "amdgpu: GPU reset", "nvidia 0000:ca:00.0: something else, Xid 48"}, ""},
		"of programs":               {[]string{xid("13, pid=1, Graphics Exception"), xid("31, pid=4242, name=python, Ch 8"), xid("43, pid=1"), xid("45, pid=1, Ch 1 caused by previous Xid 145"), xid("69, x"), xid("109999, x")}, ""},
		"off the bus, twice":        {[]string{xid(gone), xid(gone)}, goneHas},
		"an old driver":             {[]string{"NVRM: Xid (0000:ca:00): 79, GPU has fallen off the bus."}, goneHas},
		"upper case, function":      {[]string{"NVRM: Xid (PCI:00000000:CA:00.0): 79, x"}, goneHas},
		"a domain of five digits":   {[]string{"NVRM: Xid (PCI:10000:ca:00): 48, x"}, "!XID 48, double bit memory error at 10000:ca:00"},
		"a MIG instance":            {[]string{"NVRM: Xid (PCI:0000:ca:00 GPU-I:05): 95, pid=7, Uncontained: LTC TAG (0x2, 0x1). RST: Yes, D-RST: No", "NVRM: Xid (PCI:0000:ca:00 GPU-I:05 GPU-CI:00): 31, x"}, "!XID 95, a memory error that could not be contained"},
		"contained":                 {[]string{xid("94, pid=7062, Contained: CE User Channel (0x9). RST: No, D-RST: No")}, "XID 94, a memory error that was contained: the program that had the memory was ended"},
		"contained, with a reset":   {[]string{xid("94, pid=7062, Contained: x. RST: No, D-RST: Yes")}, "!XID 94, a memory error that was contained: the program that had the memory was ended; a reset is needed"},
		"a row to be remapped":      {[]string{xid("63, pid=99, Row Remapper: New row marked for remapping")}, "XID 63, a faulty memory row or page was noted, to be taken out of use at the next reset"},
		"system processor":          {[]string{xid("119, pid=1, Timeout after 6s of waiting for RPC response"), xid("120, GSP task exception")}, "!XID 119, the GPU's system processor does not answer; !XID 120, error of the GPU's system processor"},
		"memory, initialization":    {[]string{xid("140, x"), xid("143, x")}, "!XID 140, a memory error that was not recovered; !XID 143, the GPU could not be initialized"},
		"NVLink, fatal":             {[]string{xid("149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x0)")}, "!XID 149, NVLink error (NETIR), fatal"},
		"NVLink, not fatal":         {[]string{xid("144, SAW_MVB Nonfatal XC0 i0 Link 0 (0x1 0x8)"), xid("145, pid=7, name=python3, RLW_RXPIPE Non-fatal XC0 i0 Link 13")}, "XID 144, NVLink error (SAW), not fatal; XID 145, NVLink error (RLW), not fatal"},
		"NVLink, no severity":       {[]string{xid("150, MSE_WATCHDOG")}, "XID 150, NVLink error (MSE), of no severity in its message"},
		"NVLink, both severities":   {[]string{xid("146, TLW_CTRL Nonfatal XC0"), xid("146, TLW_CTRL Fatal XC0")}, "XID 146, NVLink error (TLW), not fatal; !XID 146, NVLink error (TLW), fatal"},
		"recovery, reset":           {[]string{xid("154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")}, "!XID 154, the driver asks for a recovery action: reset the GPU"},
		"recovery, other words":     {[]string{xid("154, pid=1, name=x, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)")}, "!XID 154, the driver asks for a recovery action: restart the node"},
		"recovery, drain":           {[]string{xid("154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)")}, "!XID 154, the driver asks for a recovery action: stop the programs that copy between GPUs (drain P2P)"},
		"recovery, drain and reset": {[]string{xid("154, GPU recovery action changed from 0x3 (Drain P2P) to 0x4 (Drain and Reset)")}, "!XID 154, the driver asks for a recovery action: stop the programs that copy between GPUs, and reset the GPU (drain and reset)"},
		"recovery, another domain":  {[]string{xid("154, GPU recovery action changed from 0x0 (None) to 0x5 (Recover IMEX Domain)")}, "XID 154, the driver asks for a recovery action: recover the IMEX domain"},
		"recovery, of the future":   {[]string{xid("154, GPU recovery action changed from 0x0 (None) to 0x2a (Sing)")}, "!XID 154, the driver asks for a recovery action: action 42, which this gpuprof does not know"},
		"recovery, the last counts": {[]string{xid("154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)"), xid("154, GPU recovery action changed from 0x3 (Drain P2P) to 0x2 (Node Reboot Required)")}, "!XID 154, the driver asks for a recovery action: restart the node"},
		"recovery, of no words":     {[]string{xid("154, something")}, "XID 154, the driver asks for another recovery action, which its message does not name"},
		"recovery, none any more":   {[]string{xid("145, RLW_CTRL Fatal XC0"), xid("154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)"), xid("154, GPU recovery action changed from 0x3 (Drain P2P) to 0x0 (None)")}, ""},
		"no XID":                    {[]string{"NVRM: GPU 0000:ca:00.0: GPU has fallen off the bus.", "NVRM: GPU 0000:ca:00.0: GPU serial number is 1."}, "!GPU has fallen off the bus, no XID"},
		"no XID, an old driver":     {[]string{"NVRM: GPU at 0000:ca:00.0 has fallen off the bus."}, "!GPU has fallen off the bus, no XID"},
		"XID and its sentence":      {[]string{xid(gone), "NVRM: GPU 0000:ca:00.0: GPU has fallen off the bus."}, goneHas},
		"the sentence and its XID":  {[]string{"NVRM: GPU 0000:ca:00.0: GPU has fallen off the bus.", xid(gone)}, goneHas},
		"the sentence of another":   {[]string{xid(gone), "NVRM: GPU 0000:17:00.0: GPU has fallen off the bus."}, goneHas + "; !GPU has fallen off the bus, no XID at 0000:17:00"},
		"NVLink, non_fatal":         {[]string{xid("147, TREX_X NON_FATAL XC0 i0"), xid("148, NVLPW_CTRL Non Fatal XC0")}, "XID 147, NVLink error (TREX), not fatal; XID 148, NVLink error (NVLPW_CTRL), not fatal"},
		"no XID, one record":        {[]string{`NVRM: The NVIDIA GPU 0000:ca:00.0\x0aNVRM: (PCI ID: 10de:2330) installed in this system has\x0aNVRM: fallen off the bus and is not responding to commands.`}, "!GPU has fallen off the bus, no XID"},
		"no XID, three records":     {[]string{"NVRM: The NVIDIA GPU 0000:ca:00.0", "NVRM: (PCI ID: 10de:2330) installed in this system has", "NVRM: fallen off the bus and is not responding to commands."}, "!GPU has fallen off the bus, no XID"},
		"another end of that":       {[]string{"NVRM: The NVIDIA GPU 0000:ca:00.0", "NVRM: (PCI ID: 10de:2330) installed in this system is not supported"}, ""},
		"reset required":            {[]string{"NVRM: GPU0 nvCheckOkFailedNoLog: Check failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from x"}, "!the driver refuses a GPU that has to be reset (NV_ERR_RESET_REQUIRED) at "},
		"reset required, address":   {[]string{"NVRM: GPU 0000:ca:00.0: rm_init failed: NV_ERR_RESET_REQUIRED"}, "!the driver refuses a GPU that has to be reset (NV_ERR_RESET_REQUIRED)"},
		"another GPU":               {[]string{"NVRM: Xid (PCI:0000:17:00): 79, x"}, goneHas + " at 0000:17:00"},

		"then its reset":                   {[]string{xid(gone), xid("63, x"), reset}, ""},
		"a reset by nvidia-smi":            {[]string{xid("95, x"), "GPU 00000000:CA:00.0 was successfully reset."}, ""},
		"a reset of another GPU":           {[]string{xid(gone), "nvidia 0000:17:00.0: reset done"}, goneHas},
		"a reset of another device":        {[]string{xid(gone), "NVRM: x [NV_ERR_RESET_REQUIRED]", "nvme 0000:ca:00.0: reset done"}, goneHas + "; !the driver refuses a GPU that has to be reset (NV_ERR_RESET_REQUIRED) at "},
		"a reset that began":               {[]string{xid(gone), "nvidia 0000:ca:00.0: resetting"}, goneHas},
		"a reset before":                   {[]string{reset, xid(gone)}, goneHas},
		"a reset between":                  {[]string{xid("95, x"), reset, xid(gone)}, goneHas},
		"a reset, and a required one":      {[]string{"NVRM: x [NV_ERR_RESET_REQUIRED]", reset}, ""},
		"a required reset after that":      {[]string{reset, "NVRM: x [NV_ERR_RESET_REQUIRED]"}, "!the driver refuses a GPU that has to be reset (NV_ERR_RESET_REQUIRED) at "},
		"a reload of the driver":           {[]string{xid(gone), "nvidia-nvlink: Unregistered Nvlink Core", "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.95.05"}, goneHas},
		"a boot":                           {[]string{xid(gone), "Linux version 6.8.0-60-generic (build@host)"}, ""},
		"a text about Linux is no boot":    {[]string{xid(gone), "mydaemon: found Linux version 6"}, goneHas},
		"a name like a severity or a line": {[]string{xid("31, pid=1, name=Fatal, NVRM: Xid"), xid("13, GPU has fallen off the bus")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := ReadLog(logged(c.log...))
			if got := events(l); got != c.want || l.Cut {
				t.Errorf("%q, want %q (%v)", got, c.want, l.Cut)
			}
			for _, e := range l.Events {
				if e.Fault && e.Fix == "" {
					t.Errorf("%s has no fix", e.Text)
				}
			}
		})
	}
}

// TestDocumentedXIDs: the table of docs/gpu-faults.md has every code at its level, and no other.
func TestDocumentedXIDs(t *testing.T) {
	text, err := os.ReadFile("../../docs/gpu-faults.md")
	if err != nil {
		t.Fatal(err)
	}
	of := map[string]level{"fault: reset the GPU": reset, "fault: restart the node": restart, "fault: check the power cables": replace, "note": noted}
	documented := map[int]level{94: noted, recoveryXID: noted}
	for code := firstNVLink5; code <= lastNVLink5; code++ {
		documented[code] = reset
	}
	for _, row := range regexp.MustCompile(`(?m)^\| ([\d, ]+) \| ([^|]*) \|$`).FindAllStringSubmatch(string(text), -1) {
		if l, ok := of[row[2]]; ok {
			for number := range strings.SplitSeq(row[1], ", ") {
				code, err := strconv.Atoi(number)
				if err != nil {
					t.Fatal(err)
				}
				documented[code] = l
			}
		}
	}
	delete(documented, recoveryXID)
	for code := range 1000 {
		if documented[code] != xids[code].level {
			t.Errorf("XID %d is documented as level %d, and read as %d", code, documented[code], xids[code].level)
		}
	}
}

// Every code of the table is read, with a fix where it is a fault, and a reset of the GPU
// after it, of that GPU alone, clears it.
func TestLogProperty(t *testing.T) {
	codes := []int{}
	for code := range xids {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	rapid.Check(t, func(t *rapid.T) {
		var log []string
		present := map[string]bool{} // faulty, by address
		for range rapid.IntRange(0, 12).Draw(t, "lines") {
			pci := fmt.Sprintf("0000:%02x:00", rapid.IntRange(1, 3).Draw(t, "bus"))
			switch code := rapid.SampledFrom(append([]int{0, 13, 31, 154}, codes...)).Draw(t, "code"); code {
			case 0:
				log = append(log, "nvidia "+pci+".0: reset done")
				delete(present, pci)
			case 154:
				to := rapid.IntRange(0, 4).Draw(t, "action")
				log = append(log, fmt.Sprintf("NVRM: Xid (PCI:%s): 154, GPU recovery action changed from 0x9 (x) to 0x%x (x)", pci, to))
				present[pci] = to > 0
			default:
				fatal := rapid.SampledFrom([]string{"Fatal", "Nonfatal", ""}).Draw(t, "severity")
				log = append(log, fmt.Sprintf("NVRM: Xid (PCI:%s): %d, UNIT %s XC0", pci, code, fatal))
				fault := xids[code].level > noted
				if code >= firstNVLink5 && code <= lastNVLink5 {
					fault = fatal == "Fatal"
				}
				present[pci] = present[pci] || fault
			}
		}
		got := map[string]bool{}
		for _, e := range ReadLog(logged(log...)).Events {
			if e.Fault {
				got[e.PCI] = true
			}
		}
		for bus := range 3 {
			// An action that follows another replaces it, so an earlier fault may be one of those.
			pci := fmt.Sprintf("0000:%02x:00", bus+1)
			if got[pci] && !present[pci] || present[pci] && !got[pci] {
				t.Errorf("%s is faulty: %v, want %v\n%s", pci, got[pci], present[pci], strings.Join(log, "\n"))
			}
		}
	})
}

func FuzzReadLog(f *testing.F) {
	f.Add(logged("NVRM: Xid (PCI:0000:ca:00): 154, GPU recovery action changed from 0x0 (None) to 0x99999999999999999999 (x)"))
	f.Add("NVRM: Xid (PCI:0000:17:00.0): 999999999999999999999, what is this")
	f.Fuzz(func(t *testing.T, text string) {
		for _, e := range ReadLog(text).Events {
			if e.Text == "" || e.Fault && e.Fix == "" {
				t.Errorf("%+v", e)
			}
		}
	})
}

// gpu is a card that NVML answers for in full.
func gpu(device, pci, uuid string) Card {
	return Card{Device: device, PCI: pci, UUID: uuid, Sources: append([]Source{{Name: SourceNVML, Answer: NoFault}}, sound()...)}
}

// TestAskLog: an event belongs to the GPU of its address, also to one that NVML does not list;
// one without an address belongs to the only GPU, or is of the node's GPUs.
func TestAskLog(t *testing.T) {
	two := func() []Card { return []Card{gpu("gpu0", "0000:17:00.0", "GPU-a"), gpu("gpu1", "0000:ca:00.0", "")} }
	required := "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)"
	for name, c := range map[string]struct {
		cards   []Card
		log     []string
		why     string
		verdict Verdict
		reason  string
		note    string
	}{
		"nothing logged":          {two(), nil, "", Healthy, "no device reports a fault", ""},
		"no permission":           {two(), nil, "operation not permitted", Healthy, "no device reports a fault", "gpu0 and gpu1: not answered: kernel_log (operation not permitted)"},
		"a note":                  {two(), []string{"NVRM: Xid (PCI:0000:ca:00): 63, x"}, "", Healthy, "", "gpu1: in the kernel's log since boot: XID 63"},
		"of the second":           {two(), []string{"NVRM: GPU at PCI:0000:ca:00: GPU-bc0fa0b9-cac2-f507-b715-9bebdb69c71e", "NVRM: Xid (PCI:0000:ca:00): 79, x"}, "", Unhealthy, "gpu1 (PCI 0000:ca:00.0, GPU-bc0fa0b9-cac2-f507-b715-9bebdb69c71e) is not", ""},
		"of no listed GPU":        {two(), []string{"NVRM: Xid (PCI:0000:dc:00): 79, x"}, "", Unhealthy, "0000:dc:00.0 is not as fast or as sound", ""},
		"a note on no listed GPU": {two(), []string{"NVRM: Xid (PCI:0000:dc:00): 63, x"}, "", Healthy, "", ""},
		"of no named GPU, of two": {two(), []string{required}, "", Unhealthy, "a GPU of unknown address is not as fast or as sound", ""},
		"of no named GPU, of one": {two()[1:], []string{required}, "", Unhealthy, "gpu1 (PCI 0000:ca:00.0) is not", ""},
		"of none that was asked":  {[]Card{{Device: AllGPUs, Error: "no library"}}, []string{required, "NVRM: Xid (PCI:0000:dc:00): 48, x"}, "", Unhealthy, "a GPU of unknown address and 0000:dc:00.0 are not as fast or as sound as they should be; GPUs could not be asked", "GPUs: no library"},
		"an address of nobody":    {[]Card{gpu("gpu0", "", "")}, []string{"NVRM: Xid (PCI:0000:dc:00): 13, x"}, "", Healthy, "", "gpu0: not answered: kernel_log (the log names a GPU by its PCI address, which is unknown)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := JudgeAccounts(AssignLog(c.cards, ReadLog(logged(c.log...)), c.why), gpuprof.Tool{})
			if r.Verdict != c.verdict || !strings.HasPrefix(r.Reason, c.reason) || r.Faulty() != (c.verdict == Unhealthy) || c.note != "" && !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.HasPrefix(n, c.note) }) {
				t.Errorf("%s: %s; %q", r.Verdict, r.Reason, r.Notes)
			}
		})
	}
	// A log that lost its beginning is no proof that there was nothing in it.
	cut := AssignLog(two(), ReadLog("6,1200,98213,-;usb 1-1: new device"), "")
	if r := JudgeAccounts(cut, gpuprof.Tool{}); r.Verdict != Healthy || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "earlier XIDs are unknown") {
		t.Errorf("%s %q", r.Verdict, r.Notes)
	}
}

// TestNotAsked: a report of GPUs that could not be asked says why.
func TestNotAsked(t *testing.T) {
	r := JudgeAccounts([]Card{{Device: AllGPUs, Error: "no library"}}, gpuprof.Tool{})
	if r.Verdict != Failed || r.ExitCode != 4 || r.Reason != "GPUs could not be asked" || len(r.Notes) != 1 || r.Notes[0] != "GPUs: no library" {
		t.Errorf("%s: %s %q", r.Verdict, r.Reason, r.Notes)
	}
}

// TestNotChecked: a device is healthy only if a source that decides answered; the reason has
// each source that did not, once for all devices of which it is true.
func TestNotChecked(t *testing.T) {
	silent := func(device string) Card {
		return Card{Device: device, Sources: []Source{{Name: SourceNVML, Answer: NoFault}, {Name: SourceECC, Answer: Unanswered, Decides: true, Text: "not permitted"},
			{Name: SourceRepair, Answer: Unanswered, Decides: true, Text: "not permitted"}, RecoverySource(0, false)}}
	}
	r := JudgeAccounts([]Card{silent("gpu0"), silent("gpu1"), gpu("gpu2", "0000:17:00.0", "")}, gpuprof.Tool{})
	if r.Verdict != NotChecked || r.ExitCode != 3 || r.Reason != "gpu0 and gpu1: ecc_errors (not permitted), memory_repair (not permitted)" {
		t.Errorf("%s: %s", r.Verdict, r.Reason)
	}
	fault := silent("gpu1")
	fault.setSource(RecoverySource(1, false))
	if r := JudgeAccounts([]Card{silent("gpu0"), fault}, gpuprof.Tool{}); r.Verdict != Unhealthy || r.Off[0].Metric != "recovery_action" || !strings.Contains(r.Off[0].Fix, "nvidia-smi -r") {
		t.Errorf("%s: %s %+v", r.Verdict, r.Reason, r.Off)
	}
	own := silent("gpu0")
	own.setSource(RecoverySource(0, true))
	if r := JudgeAccounts([]Card{own}, gpuprof.Tool{}); r.Verdict != Healthy || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0], "gpu0: not answered: ecc_errors") {
		t.Errorf("%s: %s %q", r.Verdict, r.Reason, r.Notes)
	}
	for number, a := range actions {
		s := RecoverySource(number, true)
		if (s.Answer == HasFault) == a.note || s.Answer == HasFault && s.Fix == "" || s.Answer == NoFault && len(s.Notes) != 1 {
			t.Errorf("%d: %+v", number, s)
		}
	}
}
