package health

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// XID is an error that the NVIDIA driver wrote into the kernel's log.
type XID struct {
	PCI  string // "0000:ca:00", lower case
	Code int
}

// xidLine is how the driver writes one: "NVRM: Xid (PCI:0000:ca:00): 79, pid=…, GPU has
// fallen off the bus."
var xidLine = regexp.MustCompile(`NVRM: Xid \(PCI:([0-9A-Fa-f:.]+)\): (\d+)`)

// XIDs are those of a log, each code of a device once, in the order of their first.
func XIDs(log string) []XID {
	var out []XID
	for _, m := range xidLine.FindAllStringSubmatch(log, -1) {
		code, err := strconv.Atoi(m[2])
		x := XID{PCI: pciName(m[1]), Code: code}
		if err == nil && !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// pciName is a PCI address as logs and NVML have it, with the domain in four digits and
// without the function: "00000000:CA:00.0" is "0000:ca:00".
func pciName(address string) string {
	address, _, _ = strings.Cut(strings.ToLower(address), ".")
	if domain, rest, ok := strings.Cut(address, ":"); ok && len(domain) > 4 {
		return domain[len(domain)-4:] + ":" + rest
	}
	return address
}

// xids are the codes that tell of the device: what they mean by NVIDIA's catalogue of XID
// errors (https://docs.nvidia.com/deploy/xid-errors), and whether the device is at fault
// until it is reset. Other codes are of programs, which the driver ends for them.
var xids = map[int]struct {
	means string
	fault bool
}{
	48:  {"double bit memory error", true},
	63:  {"a faulty memory row or page was noted, to be taken out of use at the next reset", false},
	64:  {"a faulty memory row or page could not be noted to be taken out of use", true},
	74:  {"NVLink error", true},
	79:  {"the GPU has fallen off the bus", true},
	92:  {"many single bit memory errors that were corrected", false},
	94:  {"a memory error that was contained: the program that had the memory was ended", false},
	95:  {"a memory error that could not be contained", true},
	119: {"the GPU's system processor does not answer", true},
}

// Blame puts the XIDs of a kernel's log to the device at a PCI address: what makes it
// faulty into its condition. It returns the others that tell of it, in words.
func (c *Condition) Blame(pci string, found []XID) (notes []string) {
	var faults []string
	for _, x := range found {
		known, ok := xids[x.Code]
		if !ok || x.PCI != pciName(pci) {
			continue
		}
		text := fmt.Sprintf("XID %d in the kernel's log since boot: %s", x.Code, known.means)
		if known.fault {
			faults = append(faults, text)
		} else {
			notes = append(notes, text)
		}
	}
	c.Fault = strings.Join(faults, "; ")
	return notes
}
