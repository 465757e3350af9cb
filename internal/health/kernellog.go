package health

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
)

// Event is a driver message in the kernel log about a GPU.
type Event struct {
	PCI   string // "0000:ca:00"; empty if the message names no GPU
	Fault bool   // the message is a fault; otherwise a note
	Text  string
	Fix   string
}

// Log holds the GPU messages of a kernel log.
type Log struct {
	Events []Event           // each once, in order, without those that a reset cleared
	UUIDs  map[string]string // UUIDs by PCI address, if the driver logged them
	// Cut marks a log that lost its first messages since boot.
	Cut bool
}

const addressPattern = `([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2})(?:\.[0-9A-Fa-f])?`

// The patterns of this list follow open-gpu-kernel-modules (kernel_rc.c, osinit.c, osapi.c, gpu.c) and the kernel's
// PCI core.
var (
	// "NVRM: Xid (PCI:0000:ca:00 GPU-I:05): 79, pid=…, GPU has fallen off the bus."; old drivers omit "PCI:".
	xidLine = lazyregexp.New(`NVRM: Xid \((?:PCI:)?` + addressPattern + `[^)]*\): (\d+)(.*)`)
	// "NVRM: GPU 0000:ca:00.0: GPU has fallen off the bus."; old drivers: "NVRM: GPU at 0000:ca:00.0 has fallen off
	// the bus."
	offBusLine = lazyregexp.New(`NVRM: GPU (?:at )?(?:PCI:)?` + addressPattern + `:? (?:GPU )?has fallen off the bus`)
	// "NVRM: The NVIDIA GPU 0000:ca:00.0", later "fallen off the bus and is not responding to commands."
	offBusBegin = lazyregexp.New(`NVRM: The NVIDIA GPU ` + addressPattern)
	offBusEnd   = "fallen off the bus and is not responding"
	// "NVRM: GPU at PCI:0000:ca:00: GPU-…"
	uuidLine = lazyregexp.New(`NVRM: GPU at (?:PCI:)?` + addressPattern + `: (GPU-[0-9A-Fa-f-]{36})`)
	// "NVRM: GPU0 nvCheckOkFailedNoLog: Check failed: Reset required [NV_ERR_RESET_REQUIRED] …". The driver's GPU number
	// differs from NVML's.
	resetRequired = lazyregexp.New(`NVRM: (?:.*\b` + addressPattern + `)?.*NV_ERR_RESET_REQUIRED`)
	// "… 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)": the texts differ between
	// drivers, the numbers do not.
	recoveryLine = lazyregexp.New(`recovery action changed from .* to (0[xX][0-9A-Fa-f]+|\d+)`)
	// "nvidia 0000:ca:00.0: reset done", from the PCI core of newer kernels (pci_dev_restore), or "GPU 00000000:CA:00.0
	// was successfully reset.", from nvidia-smi if its output was copied into the log.
	resetLine = lazyregexp.New(`nvidia ` + addressPattern + `: reset done|GPU ` + addressPattern + ` was successfully reset`)
	bootLine  = lazyregexp.New(`(?:^|;|\] )Linux version \d`)
	// A record of /dev/kmsg is "priority,number,time,flags;message". The first record since boot has number 0.
	laterRecord = lazyregexp.New(`^\d+,[1-9]\d*,`)
	needReset   = lazyregexp.New(`\bRST: Yes`) // containment errors, and "D-RST: Yes"
	severity    = lazyregexp.New(`(?i)\b(non[-_ ]?)?fatal\b`)
)

// ReadLog parses a kernel log. A GPU's events are cleared by its reset, by a boot, and by the driver's message that it
// needs no recovery action. Reloading the driver does not reset the GPU, and clears nothing.
func ReadLog(text string) Log {
	l := Log{UUIDs: map[string]string{}, Cut: laterRecord.MatchString(text)}
	offBus := "" // GPU address in a message that spans lines
	// /dev/kmsg writes line breaks inside a message as \x0a.
	for line := range strings.SplitSeq(strings.ReplaceAll(text, `\x0a`, "\n"), "\n") {
		if m := offBusBegin.FindStringSubmatch(line); m != nil {
			offBus = m[1]
		}
		switch {
		case bootLine.MatchString(line):
			l.Events = nil
		case strings.Contains(line, offBusEnd):
			if offBus != "" {
				l.addOffBus(offBus)
			}
			offBus = ""
		default:
			l.parseLine(line)
		}
	}
	return l
}

func (l *Log) parseLine(line string) {
	if m := resetLine.FindStringSubmatch(line); m != nil {
		l.clearEvents(pciName(m[1]+m[2]), true)
		return
	}
	if m := xidLine.FindStringSubmatch(line); m != nil {
		l.addXID(m[1], m[2], m[3])
		return
	}
	if m := uuidLine.FindStringSubmatch(line); m != nil {
		l.UUIDs[pciName(m[1])] = m[2]
		return
	}
	if m := offBusLine.FindStringSubmatch(line); m != nil {
		l.addOffBus(m[1])
		return
	}
	if m := resetRequired.FindStringSubmatch(line); m != nil {
		l.addFault(m[1], "the driver refuses a GPU that has to be reset (NV_ERR_RESET_REQUIRED)", FixReset)
	}
}

const goneWithoutXID = "GPU has fallen off the bus, no XID"

// addOffBus adds the event that a GPU has fallen off the bus, from a message without an XID. The driver writes that
// message after XID 79 too; then the XID stays the only event.
func (l *Log) addOffBus(pci string) {
	isXID := func(e Event) bool {
		return e.PCI == pciName(pci) && strings.Contains(e.Text, fmt.Sprintf("XID %d,", offBusXID))
	}
	if !slices.ContainsFunc(l.Events, isXID) {
		l.addFault(pci, goneWithoutXID, fixes[xids[offBusXID].level])
	}
}

func (l *Log) addXID(pci, number, message string) {
	code, err := strconv.Atoi(number)
	known, ok := xids[code]
	text, fault := fmt.Sprintf("XID %d, %s", code, known.means), known.level > noted
	switch {
	case err != nil:
		return
	case code == recoveryXID:
		l.setRecovery(pci, message)
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
		l.addFault(pci, text+"; a reset is needed", FixReset)
		return
	}
	if fault {
		l.addFault(pci, text, fixes[known.level])
	} else {
		l.addNote(pci, text)
	}
}

// setRecovery replaces a GPU's recovery action by a new one.
func (l *Log) setRecovery(pci, message string) {
	m := recoveryLine.FindStringSubmatch(message)
	if m == nil {
		l.addNote(pci, "XID 154, the driver asks for another recovery action, which its message does not name")
		return
	}
	number, err := strconv.ParseInt(m[1], 0, 32)
	if err != nil {
		number = -1
	}
	l.clearEvents(pciName(pci), number == 0)
	switch a := actionOf(int(number)); {
	case number == 0:
	case a.note:
		l.addNote(pci, "XID 154, "+a.requestText())
	default:
		l.addFault(pci, "XID 154, "+a.requestText(), a.fix)
	}
}

func logText(what string) string { return "in the kernel's log since boot: " + what }

func (l *Log) addFault(pci, text, fix string) {
	l.add(Event{PCI: pciName(pci), Fault: true, Text: logText(text), Fix: fix})
}

func (l *Log) addNote(pci, text string) { l.add(Event{PCI: pciName(pci), Text: logText(text)}) }

func (l *Log) add(e Event) {
	if !slices.Contains(l.Events, e) {
		l.Events = append(l.Events, e)
	}
}

// clearEvents removes the events of a GPU: all, or only its recovery action. With all, events without an address are
// removed too: a GPU that still needs a reset logs them again at its next use.
func (l *Log) clearEvents(pci string, all bool) {
	l.Events = slices.DeleteFunc(l.Events, func(e Event) bool {
		return all && (e.PCI == pci || e.PCI == "") || e.PCI == pci && strings.Contains(e.Text, "XID 154")
	})
}

// pciName normalises a PCI address from logs or NVML to a domain of at least four digits, lower case and no function:
// "00000000:CA:00.0" becomes "0000:ca:00".
func pciName(address string) string {
	address, _, _ = strings.Cut(strings.ToLower(address), ".")
	domain, rest, ok := strings.Cut(address, ":")
	if !ok {
		return address
	}
	domain = strings.TrimLeft(domain, "0")
	return strings.Repeat("0", max(0, 4-len(domain))) + domain + ":" + rest
}

// PCIAddress returns the address as the kernel writes it, "0000:ca:00.0"; "" for "".
func PCIAddress(address string) string {
	if address == "" {
		return ""
	}
	return pciName(address) + ".0"
}

// AssignLog assigns the events of a log to the devices. A fault of an unlisted device adds a card named by its address. A
// message without an address counts for the only device, or for AllGPUs if there are several. why is the reason if
// there is no log.
func AssignLog(cards []Card, l Log, why string) []Card {
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
		c.setSource(l.buildAnswer(func(e Event) bool { return e.PCI == pci || e.PCI == "" && alone }))
	}
	for _, e := range l.Events {
		if !e.Fault || seen[e.PCI] {
			continue
		}
		seen[e.PCI] = true
		s := l.buildAnswer(func(o Event) bool { return o.PCI == e.PCI })
		i := slices.IndexFunc(cards, func(c Card) bool { return c.Device == AllGPUs })
		if e.PCI != "" || i < 0 {
			i, cards = len(cards), append(cards, Card{Device: cmp.Or(PCIAddress(e.PCI), AllGPUs), PCI: PCIAddress(e.PCI), UUID: l.UUIDs[e.PCI]})
		}
		cards[i].setSource(s)
	}
	return cards
}

// buildAnswer returns the log's answer about the events that belongs accepts.
func (l *Log) buildAnswer(belongs func(Event) bool) Source {
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

func (c *Card) setSource(s Source) {
	if i := slices.IndexFunc(c.Sources, func(o Source) bool { return o.Name == s.Name }); i >= 0 {
		c.Sources[i] = s
		return
	}
	c.Sources = append(c.Sources, s)
}
