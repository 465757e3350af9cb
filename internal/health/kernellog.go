package health

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Event is a message of the NVIDIA driver in the kernel's log that tells of a GPU.
type Event struct {
	PCI   string // "0000:ca:00"; empty where the message names no GPU
	Fault bool   // of the GPU; else it is worth a note
	Text  string
	Fix   string
}

// Log is what a kernel's log holds about GPUs.
type Log struct {
	Events []Event           // that no reset cleared, each once, in the order of their first
	UUIDs  map[string]string // of the GPUs, by PCI address, where the driver logged one
	// Cut tells that the first messages since boot were overwritten.
	Cut bool
}

const addressPattern = `([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-9A-Fa-f])?`

// The messages, as the driver's sources (open-gpu-kernel-modules: kernel_rc.c, osinit.c,
// osapi.c, gpu.c) and the kernel's PCI core print them.
var (
	// "NVRM: Xid (PCI:0000:ca:00 GPU-I:05): 79, pid=…, GPU has fallen off the bus."; old drivers
	// leave out "PCI:".
	xidLine = regexp.MustCompile(`NVRM: Xid \((?:PCI:)?` + addressPattern + `[^)]*\): (\d+)(.*)`)
	// "NVRM: GPU 0000:ca:00.0: GPU has fallen off the bus."; of old drivers "NVRM: GPU at
	// 0000:ca:00.0 has fallen off the bus."
	offBusLine = regexp.MustCompile(`NVRM: GPU (?:at )?(?:PCI:)?` + addressPattern + `:? (?:GPU )?has fallen off the bus`)
	// "NVRM: The NVIDIA GPU 0000:ca:00.0", whose next lines end with "fallen off the bus and
	// is not responding to commands."
	offBusBegin = regexp.MustCompile(`NVRM: The NVIDIA GPU ` + addressPattern)
	offBusEnd   = "fallen off the bus and is not responding"
	// "NVRM: GPU at PCI:0000:ca:00: GPU-…"
	uuidLine = regexp.MustCompile(`NVRM: GPU at (?:PCI:)?` + addressPattern + `: (GPU-[0-9A-Fa-f-]{36})`)
	// "NVRM: GPU0 nvCheckOkFailedNoLog: Check failed: Reset required [NV_ERR_RESET_REQUIRED] …"
	// names the GPU by a number of the driver's own, which is not NVML's.
	resetRequired = regexp.MustCompile(`NVRM: (?:.*\b` + addressPattern + `)?.*NV_ERR_RESET_REQUIRED`)
	// "… 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)": the words
	// differ between drivers, the numbers do not.
	recoveryLine = regexp.MustCompile(`recovery action changed from .* to (0[xX][0-9A-Fa-f]+|\d+)`)
	// "nvidia 0000:ca:00.0: reset done" of newer kernels' PCI core (pci_dev_restore), and "GPU
	// 00000000:CA:00.0 was successfully reset." of nvidia-smi, where it was copied into the log.
	resetLine = regexp.MustCompile(`nvidia ` + addressPattern + `: reset done|GPU ` + addressPattern + ` was successfully reset`)
	bootLine  = regexp.MustCompile(`(?:^|;|\] )Linux version \d`)
	// Of a record of /dev/kmsg, "priority,number,time,flags;message": the first number is 0.
	laterRecord = regexp.MustCompile(`^\d+,[1-9]\d*,`)
	needReset   = regexp.MustCompile(`\bRST: Yes`) // of containment errors; "D-RST: Yes" too
	severity    = regexp.MustCompile(`(?i)\b(non[-_ ]?)?fatal\b`)
)

// ReadLog reads a kernel's log in the order of its lines. A GPU's events before a reset of
// it, before the driver logged that it needs no recovery action any more, and before a boot
// are cleared. A reload of the driver clears nothing: it is no reset of the GPU.
func ReadLog(text string) Log {
	l := Log{UUIDs: map[string]string{}, Cut: laterRecord.MatchString(text)}
	offBus := "" // address of a message that spans lines
	// /dev/kmsg writes the line breaks inside one message as \x0a.
	for line := range strings.SplitSeq(strings.ReplaceAll(text, `\x0a`, "\n"), "\n") {
		if m := offBusBegin.FindStringSubmatch(line); m != nil {
			offBus = m[1]
		}
		switch {
		case bootLine.MatchString(line):
			l.Events = nil
		case strings.Contains(line, offBusEnd):
			if offBus != "" {
				l.offBus(offBus)
			}
			offBus = ""
		default:
			l.line(line)
		}
	}
	return l
}

// line reads one message.
func (l *Log) line(line string) {
	if m := resetLine.FindStringSubmatch(line); m != nil {
		l.clear(pciName(m[1]+m[2]), true)
		return
	}
	if m := xidLine.FindStringSubmatch(line); m != nil {
		l.xid(m[1], m[2], m[3])
		return
	}
	if m := uuidLine.FindStringSubmatch(line); m != nil {
		l.UUIDs[pciName(m[1])] = m[2]
		return
	}
	if m := offBusLine.FindStringSubmatch(line); m != nil {
		l.offBus(m[1])
		return
	}
	if m := resetRequired.FindStringSubmatch(line); m != nil {
		l.fault(m[1], "the driver refuses a GPU that has to be reset (NV_ERR_RESET_REQUIRED)", FixReset)
	}
}

const goneWithoutXID = "GPU has fallen off the bus, no XID"

// offBus reads the message without a number that a GPU has fallen off the bus. The driver
// writes it behind XID 79 as well, which is then the only event.
func (l *Log) offBus(pci string) {
	isXID := func(e Event) bool {
		return e.PCI == pciName(pci) && strings.Contains(e.Text, fmt.Sprintf("XID %d,", offBusXID))
	}
	if !slices.ContainsFunc(l.Events, isXID) {
		l.fault(pci, goneWithoutXID, fixes[xids[offBusXID].level])
	}
}

// xid reads the message of an XID.
func (l *Log) xid(pci, number, message string) {
	code, err := strconv.Atoi(number)
	known, ok := xids[code]
	text, fault := fmt.Sprintf("XID %d, %s", code, known.means), known.level > noted
	switch {
	case err != nil:
		return
	case code == recoveryXID:
		l.recovery(pci, message)
		return
	case !ok:
		return
	case code == offBusXID:
		l.Events = slices.DeleteFunc(l.Events, func(e Event) bool { return e.PCI == pciName(pci) && e.Text == logText(goneWithoutXID) })
	case code >= firstNVLink5 && code <= lastNVLink5:
		switch m := severity.FindStringSubmatch(message); {
		case m == nil:
			text, fault = text+", of no severity in its message", false
		case m[1] == "":
			text += ", fatal"
		default:
			text, fault = text+", not fatal", false
		}
	case !fault && needReset.MatchString(message):
		l.fault(pci, text+"; a reset is needed", FixReset)
		return
	}
	if fault {
		l.fault(pci, text, fixes[known.level])
	} else {
		l.note(pci, text)
	}
}

// recovery reads which action the driver wants since then; only its last word counts.
func (l *Log) recovery(pci, message string) {
	m := recoveryLine.FindStringSubmatch(message)
	if m == nil {
		l.note(pci, "XID 154, the driver asks for another recovery action, which its message does not name")
		return
	}
	number, err := strconv.ParseInt(m[1], 0, 32)
	if err != nil {
		number = -1
	}
	l.clear(pciName(pci), number == 0)
	switch a := actionOf(int(number)); {
	case number == 0:
	case a.note:
		l.note(pci, "XID 154, "+a.text())
	default:
		l.fault(pci, "XID 154, "+a.text(), a.fix)
	}
}

// logText is an event as it is reported.
func logText(what string) string { return "in the kernel's log since boot: " + what }

func (l *Log) fault(pci, text, fix string) {
	l.add(Event{PCI: pciName(pci), Fault: true, Text: logText(text), Fix: fix})
}

func (l *Log) note(pci, text string) { l.add(Event{PCI: pciName(pci), Text: logText(text)}) }

// add appends an event once.
func (l *Log) add(e Event) {
	if !slices.Contains(l.Events, e) {
		l.Events = append(l.Events, e)
	}
}

// clear removes the events of a GPU: all of them, or its recovery action. A GPU that still
// has to be reset logs that again at its next use, so a reset also clears such events that
// name no GPU.
func (l *Log) clear(pci string, all bool) {
	l.Events = slices.DeleteFunc(l.Events, func(e Event) bool {
		return all && (e.PCI == pci || e.PCI == "") || e.PCI == pci && strings.Contains(e.Text, "XID 154")
	})
}

// pciName is a PCI address as logs and NVML have it, with the domain in four digits or as many
// as it takes, and without the function: "00000000:CA:00.0" is "0000:ca:00".
func pciName(address string) string {
	address, _, _ = strings.Cut(strings.ToLower(address), ".")
	domain, rest, ok := strings.Cut(address, ":")
	if !ok {
		return address
	}
	domain = strings.TrimLeft(domain, "0")
	return strings.Repeat("0", max(0, 4-len(domain))) + domain + ":" + rest
}

// PCIAddress is the address as the kernel writes it, "0000:ca:00.0"; empty of an empty one.
func PCIAddress(address string) string {
	if address == "" {
		return ""
	}
	return pciName(address) + ".0"
}

// AskLog attributes the events of a log to the devices. A fault of a device that is not among
// them makes a device of its own, named by its address. A message that names no device is
// about the only one, or else about AllGPUs. why is the reason for which there is no log, ""
// where there is one.
func AskLog(cards []Card, l Log, why string) []Card {
	seen := map[string]bool{}
	for i := range cards {
		c := &cards[i]
		pci := pciName(c.PCI)
		switch {
		case c.Device == AllGPUs:
			continue
		case why != "":
			c.setSource(Source{Name: SourceLog, Answer: Unanswered, Text: why})
			continue
		case pci == "":
			c.setSource(Source{Name: SourceLog, Answer: Unanswered, Text: "the log names a GPU by its PCI address, which is unknown"})
			continue
		case c.UUID == "":
			c.UUID = l.UUIDs[pci]
		}
		alone := len(cards) == 1
		seen[pci], seen[""] = true, seen[""] || alone
		c.setSource(l.source(func(e Event) bool { return e.PCI == pci || e.PCI == "" && alone }))
	}
	for _, e := range l.Events {
		if !e.Fault || seen[e.PCI] {
			continue
		}
		seen[e.PCI] = true
		s := l.source(func(o Event) bool { return o.PCI == e.PCI })
		i := slices.IndexFunc(cards, func(c Card) bool { return c.Device == AllGPUs })
		if e.PCI != "" || i < 0 {
			i, cards = len(cards), append(cards, Card{Device: cmp.Or(PCIAddress(e.PCI), AllGPUs), PCI: PCIAddress(e.PCI), UUID: l.UUIDs[e.PCI]})
		}
		cards[i].setSource(s)
	}
	return cards
}

// source is the log's answer about the events that belong to one GPU.
func (l *Log) source(belongs func(Event) bool) Source {
	s := Source{Name: SourceLog, Answer: NoFault}
	var faults []string
	for _, e := range l.Events {
		switch {
		case !belongs(e):
		case e.Fault:
			if s.Answer, faults = HasFault, append(faults, e.Text); s.Fix == "" || e.Fix == FixRestart {
				s.Fix = e.Fix
			}
		default:
			s.Notes = append(s.Notes, e.Text)
		}
	}
	if s.Text = strings.Join(faults, "; "); l.Cut {
		s.Notes = append(s.Notes, "the kernel's log no longer holds its first messages since boot, so earlier XIDs are unknown")
	}
	return s
}

// setSource adds a source, or replaces the one of its name.
func (c *Card) setSource(s Source) {
	if i := slices.IndexFunc(c.Sources, func(o Source) bool { return o.Name == s.Name }); i >= 0 {
		c.Sources[i] = s
		return
	}
	c.Sources = append(c.Sources, s)
}
