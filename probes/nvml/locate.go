package nvml

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Located is an NVIDIA GPU in the kernel's lists, known even if NVML cannot query it.
type Located struct {
	PCI  string // "0000:17:00.0"
	UUID string // UUID that the driver read at the last start of the GPU; "" if the driver never started the GPU
	// Driver reports that the NVIDIA driver lists the GPU, not just the PCI bus.
	Driver bool
}

// Locate lists the GPUs by PCI address. It reads the list of the NVIDIA driver, which keeps the UUID of a lost GPU, or
// without this driver the list of the PCI bus. Without either, it returns no GPU. root is the folder with /proc and
// /sys.
func Locate(root string) []Located {
	var out []Located
	files, _ := filepath.Glob(filepath.Join(root, "proc", "driver", "nvidia", "gpus", "*", "information")) // cannot fail: the pattern is valid
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		g := Located{PCI: filepath.Base(filepath.Dir(f)), Driver: true}
		excluded := false // excluded by an administrator: NVML does not count it
		for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ":")
			switch value = strings.TrimSpace(value); name {
			case "GPU UUID":
				if !strings.Contains(value, "?") {
					g.UUID = value
				}
			case "GPU Excluded":
				excluded = value == "Yes"
			}
		}
		if !excluded {
			out = append(out, g)
		}
	}
	if len(files) > 0 {
		return out
	}
	vendors, _ := filepath.Glob(filepath.Join(root, "sys", "bus", "pci", "devices", "*", "vendor"))
	for _, f := range vendors {
		dir := filepath.Dir(f)
		if isNVIDIA, isDisplay := fileBegins(f, "0x10de"), fileBegins(filepath.Join(dir, "class"), "0x03"); isNVIDIA && isDisplay {
			out = append(out, Located{PCI: filepath.Base(dir)})
		}
	}
	return out
}

func fileBegins(file, with string) bool {
	text, err := os.ReadFile(file)
	return err == nil && bytes.HasPrefix(text, []byte(with))
}

// Identify fills in missing addresses and UUIDs of NVML's GPUs from found, the kernel's list. It sets an address only
// for a faulty GPU, and only if both lists have the same length. If all known addresses have equal positions in both
// lists, it takes the address at the GPU's position, since NVML lists GPUs by PCI address. Otherwise it takes the only
// address in found that no GPU of the list has.
func Identify(list []DeviceInfo, found []Located) {
	uuids, free := map[string]string{}, map[string]bool{}
	for _, g := range found {
		uuids[busID(g.PCI)], free[busID(g.PCI)] = g.UUID, true
	}
	found = slices.SortedFunc(slices.Values(found), func(a, b Located) int { return strings.Compare(a.PCI, b.PCI) })
	all, unknown := len(found) == len(list), 0
	ordered := all
	for i := range list {
		if list[i].PCI == "" {
			unknown++
			continue
		}
		all = all && free[busID(list[i].PCI)]
		ordered = ordered && busID(list[i].PCI) == busID(found[i].PCI)
		delete(free, busID(list[i].PCI))
	}
	for i := range list {
		d := &list[i]
		switch {
		case d.PCI != "" || d.Fault == "":
		case ordered:
			d.PCI = found[i].PCI
		case all && unknown == 1:
			d.PCI = found[slices.IndexFunc(found, func(g Located) bool { return free[busID(g.PCI)] })].PCI
		}
		if d.UUID == "" && d.PCI != "" {
			d.UUID = uuids[busID(d.PCI)]
		}
	}
}

// Unlisted returns the driver's GPUs that NVML does not list. If a listed GPU has no address, it returns none, since
// that GPU may be the one that seems to be missing.
func Unlisted(list []DeviceInfo, found []Located) []Located {
	var out []Located
	for _, g := range found {
		known := func(d DeviceInfo) bool { return d.PCI == "" || busID(d.PCI) == busID(g.PCI) }
		if g.Driver && !slices.ContainsFunc(list, known) {
			out = append(out, g)
		}
	}
	return out
}
