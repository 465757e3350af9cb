package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// enoughThrottleS is the throttled time, s, above which throttling explains a slow matrix product: any GPU throttles
// briefly when a load starts.
const enoughThrottleS = 0.1

// remedy is an observed cause with its fix; empty if the cause was not observed.
type remedy struct{ cause, fix string }

// explain returns why a figure deviates: a cause observed on the device (then evidence is true), else the usual cause.
// peers are the conditions of the devices of the comparison, none for a range; a condition that they share is no cause.
func explain(c *Card, metric string, peers []Condition) (cause string, evidence bool, fix string) {
	isLink := strings.HasPrefix(metric, "h2d_") || strings.HasPrefix(metric, "d2h_")
	isLaunch := strings.HasPrefix(metric, "launch") || metric == "event_pair"
	var seen []remedy
	switch {
	case isLink:
		seen = append(seen, narrowLinkCause(c.Condition, peers))
	case !isLaunch:
		seen = append(seen, heatCause(c, peers), powerLimitCause(c.Condition, peers), powerThrottleCause(c.Condition, peers), lowClocksCause(c.Condition, peers))
	}
	seen = append(seen, foreignCause(c.Condition, peers))
	if c.Condition.MemoryFault != "" && !isLink {
		seen = append(seen, remedy{"memory errors: " + c.Condition.MemoryFault, "reset the GPU, or take it out of service"})
	}
	if c.Condition.MIG {
		seen = append(seen, remedy{"MIG: the GPU's other instances share its memory bandwidth, link and power", "let the other instances idle, or compare whole GPUs"})
	}
	for _, w := range seen {
		if w.cause != "" {
			return w.cause, true, w.fix
		}
	}
	cause, fix = usualCause(metric, isLink)
	return cause, false, fix
}

// differs reports whether some peer is better, or there is no peer.
func differs(peers []Condition, better func(p Condition) bool) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, better)
}

func narrowLinkCause(d Condition, peers []Condition) remedy {
	if !d.hasNarrowLink() || !differs(peers, func(p Condition) bool { return p.LinkWidth > d.LinkWidth || p.LinkGen > d.LinkGen }) {
		return remedy{}
	}
	return remedy{linkCause(d), linkFix}
}

func heatCause(c *Card, peers []Condition) remedy {
	s := c.Condition.throttledFor("thermal")
	if s <= enoughThrottleS || !differs(peers, func(p Condition) bool { return p.throttledFor("thermal") < s/2 }) {
		return remedy{}
	}
	return remedy{fmt.Sprintf("heat: the clocks were held down for %s under load%s", gpuprof.FormatSeconds(s), c.readingText("temperature")), "check fans, air flow and inlet temperature"}
}

func powerLimitCause(d Condition, peers []Condition) remedy {
	if d.PowerLimitW <= 0 || d.PowerLimitW >= d.PowerBaseW ||
		!differs(peers, func(p Condition) bool { return p.PowerLimitW == 0 || p.PowerLimitW > d.PowerLimitW }) {
		return remedy{}
	}
	return remedy{fmt.Sprintf("power cap: the limit is %.4g W, the default %.4g W", d.PowerLimitW, d.PowerBaseW), fmt.Sprintf("raise it: nvidia-smi -pl %.4g", d.PowerBaseW)}
}

func powerThrottleCause(d Condition, peers []Condition) remedy {
	s := d.throttledFor("power")
	if s <= enoughThrottleS || !differs(peers, func(p Condition) bool { return p.throttledFor("power") < s/2 }) {
		return remedy{}
	}
	return remedy{fmt.Sprintf("power cap: it held the clocks down for %s under load", gpuprof.FormatSeconds(s)),
		"compare power limits and supplies with the siblings' (nvidia-smi -q -d POWER)"}
}

func lowClocksCause(d Condition, peers []Condition) remedy {
	if d.AppClockHz <= 0 || d.AppClockHz >= d.AppBaseHz ||
		!differs(peers, func(p Condition) bool { return p.AppClockHz == 0 || p.AppClockHz > d.AppClockHz }) {
		return remedy{}
	}
	return remedy{fmt.Sprintf("application clocks are set to %s, the default is %s", gpuprof.FormatSI(d.AppClockHz, "Hz"), gpuprof.FormatSI(d.AppBaseHz, "Hz")), "reset them: nvidia-smi -rac"}
}

func foreignCause(d Condition, peers []Condition) remedy {
	if d.foreignCount() == 0 || !differs(peers, func(p Condition) bool { return p.foreignCount() < d.foreignCount() }) {
		return remedy{}
	}
	return remedy{fmt.Sprintf("foreign process: %d of other programs use the GPU", d.foreignCount()), "stop them, or drain the node before checking it"}
}

// hasNarrowLink reports whether the PCIe link is below the maximum of GPU and slot.
func (d Condition) hasNarrowLink() bool {
	return d.LinkWidth > 0 && d.LinkWidth < d.LinkWidthMax || d.LinkGen > 0 && d.LinkGen < d.LinkGenMax
}

func (d Condition) foreignCount() int {
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

// usualCause returns the usual cause of a slow figure.
func usualCause(metric string, isLink bool) (cause, fix string) {
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

// throttledFor returns the longest throttled time, s, of the reasons whose name contains kind.
func (d Condition) throttledFor(kind string) float64 {
	s := 0.0
	for reason, v := range d.ThrottledS {
		if strings.Contains(reason, kind) {
			s = max(s, v)
		}
	}
	return s
}

// readingText formats a figure, such as ", at 83 C"; "" if unknown.
func (c *Card) readingText(metric string) string {
	m, ok := c.Metric(metric)
	if !ok {
		return ""
	}
	return fmt.Sprintf(", at %.3g %s", float64(m.Value), m.Unit)
}

// conditionNotes returns conditions that explain slow figures but are no fault, since all siblings may share them.
func conditionNotes(c *Card) []string {
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
	if d.foreignCount() > 0 {
		add("%d foreign processes used the GPU while it was measured", d.foreignCount())
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
