package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// enoughThrottleS is the time of throttling, in s of the load, above which it explains a
// slow product; a moment of it at the start is every GPU's.
const enoughThrottleS = 0.1

// words are a cause that was seen and what helps; empty where it was not.
type words struct{ cause, fix string }

// explain says why a figure is off: what was seen on the device comes first,
// what usually causes it stands in where nothing was seen. peers are the devices
// it was compared with, none for a range: what they share explains nothing.
func explain(c *Card, metric string, peers []Condition) (cause string, evidence bool, fix string) {
	isLink := strings.HasPrefix(metric, "h2d_") || strings.HasPrefix(metric, "d2h_")
	isLaunch := strings.HasPrefix(metric, "launch") || metric == "event_pair"
	var seen []words
	switch {
	case isLink:
		seen = append(seen, narrowLink(c.Condition, peers))
	case !isLaunch:
		seen = append(seen, heat(c, peers), powerLimit(c.Condition, peers), powerThrottle(c.Condition, peers), lowClocks(c.Condition, peers))
	}
	seen = append(seen, strangers(c.Condition, peers))
	if c.Condition.MemoryFault != "" && !isLink {
		seen = append(seen, words{"memory errors: " + c.Condition.MemoryFault, "reset the GPU, or take it out of service"})
	}
	if c.Condition.MIG {
		seen = append(seen, words{"MIG: the GPU's other instances share its memory bandwidth, link and power", "let the other instances idle, or compare whole GPUs"})
	}
	for _, w := range seen {
		if w.cause != "" {
			return w.cause, true, w.fix
		}
	}
	cause, fix = usual(metric, isLink)
	return cause, false, fix
}

// differs reports whether one of the peers is better off; without peers the
// device stands for itself.
func differs(peers []Condition, better func(p Condition) bool) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, better)
}

func narrowLink(d Condition, peers []Condition) words {
	if !d.narrow() || !differs(peers, func(p Condition) bool { return p.LinkWidth > d.LinkWidth || p.LinkGen > d.LinkGen }) {
		return words{}
	}
	return words{linkCause(d), linkFix}
}

func heat(c *Card, peers []Condition) words {
	s := c.Condition.throttled("thermal")
	if s <= enoughThrottleS || !differs(peers, func(p Condition) bool { return p.throttled("thermal") < s/2 }) {
		return words{}
	}
	return words{fmt.Sprintf("heat: the clocks were held down for %s under load%s", gpuprof.FormatSeconds(s), c.at("temperature")), "check fans, air flow and inlet temperature"}
}

func powerLimit(d Condition, peers []Condition) words {
	if d.PowerLimitW <= 0 || d.PowerLimitW >= d.PowerBaseW ||
		!differs(peers, func(p Condition) bool { return p.PowerLimitW == 0 || p.PowerLimitW > d.PowerLimitW }) {
		return words{}
	}
	return words{fmt.Sprintf("power cap: the limit is %.4g W, the default %.4g W", d.PowerLimitW, d.PowerBaseW), fmt.Sprintf("raise it: nvidia-smi -pl %.4g", d.PowerBaseW)}
}

func powerThrottle(d Condition, peers []Condition) words {
	s := d.throttled("power")
	if s <= enoughThrottleS || !differs(peers, func(p Condition) bool { return p.throttled("power") < s/2 }) {
		return words{}
	}
	return words{fmt.Sprintf("power cap: it held the clocks down for %s under load", gpuprof.FormatSeconds(s)),
		"compare power limits and supplies with the siblings' (nvidia-smi -q -d POWER)"}
}

func lowClocks(d Condition, peers []Condition) words {
	if d.AppClockHz <= 0 || d.AppClockHz >= d.AppBaseHz ||
		!differs(peers, func(p Condition) bool { return p.AppClockHz == 0 || p.AppClockHz > d.AppClockHz }) {
		return words{}
	}
	return words{fmt.Sprintf("application clocks are set to %s, the default is %s", gpuprof.FormatSI(d.AppClockHz, "Hz"), gpuprof.FormatSI(d.AppBaseHz, "Hz")), "reset them: nvidia-smi -rac"}
}

func strangers(d Condition, peers []Condition) words {
	if d.foreign() == 0 || !differs(peers, func(p Condition) bool { return p.foreign() < d.foreign() }) {
		return words{}
	}
	return words{fmt.Sprintf("foreign process: %d of other programs use the GPU", d.foreign()), "stop them, or drain the node before checking it"}
}

// narrow reports a link below what GPU and slot allow.
func (d Condition) narrow() bool {
	return d.LinkWidth > 0 && d.LinkWidth < d.LinkWidthMax || d.LinkGen > 0 && d.LinkGen < d.LinkGenMax
}

func (d Condition) foreign() int {
	if d.Foreign == nil {
		return 0
	}
	return *d.Foreign
}

const linkFix = "reseat the GPU or its riser, and check the slot's lanes and bifurcation in the firmware"

func linkCause(d Condition) string {
	var parts []string
	if d.LinkWidth > 0 && d.LinkWidthMax > 0 {
		parts = append(parts, fmt.Sprintf("%d lanes of %d", d.LinkWidth, d.LinkWidthMax))
	}
	if d.LinkGen > 0 && d.LinkGenMax > 0 {
		parts = append(parts, fmt.Sprintf("generation %d of %d", d.LinkGen, d.LinkGenMax))
	}
	return "link width: PCIe runs with " + strings.Join(parts, " and ")
}

// usual is what usually causes it.
func usual(metric string, isLink bool) (cause, fix string) {
	switch {
	case isLink:
		return "usually the link's width or generation, a foreign process that copies, or the process running on a socket far from the GPU",
			"look at nvidia-smi -q -d PERFORMANCE,UTILIZATION and lspci -vv during copies"
	case strings.HasPrefix(metric, "launch") || metric == "event_pair":
		return "usually a loaded or slow-clocked CPU, a foreign process on the GPU, or a profiler attached to it",
			"stop other programs, and set the CPU's governor to performance"
	case metric == "copy":
		return "usually a foreign process, a lowered memory clock, faulty memory that was mapped away, or MIG",
			"look at nvidia-smi -q -d CLOCK,ECC,ROW_REMAPPER"
	}
	return "usually a power cap, heat, lowered clocks, a foreign process or MIG",
		"look at nvidia-smi -q -d CLOCK,POWER,TEMPERATURE,PERFORMANCE during the load"
}

// throttled is the longest of the reasons whose name has kind in it.
func (d Condition) throttled(kind string) float64 {
	s := 0.0
	for reason, v := range d.ThrottledS {
		if strings.Contains(reason, kind) {
			s = max(s, v)
		}
	}
	return s
}

// at is ", at 83 C" where the figure is known.
func (c *Card) at(metric string) string {
	m, ok := c.Metric(metric)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", at %.3g %s", float64(m.Value), m.Unit)
}

// notes are what explains a device's figures without being a fault: all
// siblings may share it.
func notes(c *Card) []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, c.Device+": "+fmt.Sprintf(format, args...)) }
	d := c.Condition
	if d.PowerLimitW > 0 && d.PowerLimitW < d.PowerBaseW {
		add("the power limit of %.4g W is below the default of %.4g W", d.PowerLimitW, d.PowerBaseW)
	}
	if d.AppClockHz > 0 && d.AppBaseHz > 0 && d.AppClockHz != d.AppBaseHz {
		add("application clocks are set to %s", gpuprof.FormatSI(d.AppClockHz, "Hz"))
	}
	if d.LinkGen > 0 && d.LinkGen < d.LinkGenMax {
		add("the PCIe link was not seen above generation %d of %d during the copies", d.LinkGen, d.LinkGenMax)
	}
	if d.MIG {
		add("a MIG instance: power belongs to the whole GPU and is not compared")
	}
	if d.foreign() > 0 {
		add("%d foreign processes used the GPU while it was measured", d.foreign())
	}
	for _, reason := range slices.Sorted(maps.Keys(d.ThrottledS)) {
		if s := d.ThrottledS[reason]; s > enoughThrottleS {
			add("throttled for %s under load (%s)", gpuprof.FormatSeconds(s), reason)
		}
	}
	if c.Error != "" {
		add("%s", c.Error)
	}
	return out
}
