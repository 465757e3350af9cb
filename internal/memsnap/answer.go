package memsnap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// Answer describes one device: the device of the first finding, else the one with the largest peak. It states an error,
// a leak, a peak that can be reduced, or none of these.
func (a *Analysis) Answer() gpuprof.Answer {
	if len(a.Devices) == 0 {
		return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Sentence: "The snapshot has no device whose memory could be judged."}
	}
	if len(a.Findings) == 0 || a.Findings[0].Device < 0 || a.Findings[0].Device >= len(a.Devices) {
		return a.fullest().noFindingAnswer()
	}
	f := &a.Findings[0]
	d := &a.Devices[f.Device]
	var out gpuprof.Answer
	switch {
	case f.Rule == gpuprof.RuleOutOfMemory && len(d.OOMs) > 0:
		out = gpuprof.Answer{Verdict: "out of memory", Tone: gpuprof.ToneBad, Sentence: d.outageText()}
	case f.Rule == gpuprof.RuleLeak && len(d.Growth) > 0:
		out = gpuprof.Answer{Verdict: "leak", Tone: gpuprof.ToneBad, Sentence: d.growthText()}
	case f.Severity == gpuprof.High || f.Severity == gpuprof.Medium:
		out = gpuprof.Answer{Verdict: "peak can fall", Tone: gpuprof.ToneUnsure, Sentence: d.savingText(f)}
	default:
		return a.fullest().noFindingAnswer()
	}
	out.Bar = d.peakBar()
	if f.PyTorch != "" {
		out.Action = &gpuprof.Action{Text: "Change: " + f.PyTorch}
	}
	return out
}

// fullest returns the device with the largest peak.
func (a *Analysis) fullest() *Device {
	best := &a.Devices[0]
	for i := range a.Devices {
		if a.Devices[i].Peak.Requested > best.Peak.Requested {
			best = &a.Devices[i]
		}
	}
	return best
}

// noFindingAnswer returns the answer for a device without an error, a leak or a large saving.
func (d *Device) noFindingAnswer() gpuprof.Answer {
	if d.HasOneMoment() {
		return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Bar: d.peakBar(),
			Sentence: fmt.Sprintf("Tensors hold %s%s, and the snapshot has no event that would show when they came.", gpuprof.FormatBytes(float64(d.End.Requested)), d.largestLine())}
	}
	none := fmt.Sprintf("no change was found that saves %s or more, and %.0f %% of the peak", gpuprof.FormatBytes(trifleBytes), 100*mediumPart)
	if limit := d.unjudgedText(); limit != "" {
		return gpuprof.Answer{Verdict: "not decided", Tone: gpuprof.ToneUnsure, Bar: d.peakBar(),
			Sentence: fmt.Sprintf("Tensors take up to %s%s. %s", gpuprof.FormatBytes(float64(d.Peak.Requested)), d.holderText(), gpuprof.AsSentence(none+", but "+limit))}
	}
	return gpuprof.Answer{Verdict: "healthy", Tone: gpuprof.ToneGood, Bar: d.peakBar(),
		Sentence: fmt.Sprintf("Tensors take up to %s, and %s.", gpuprof.FormatBytes(float64(d.Peak.Requested)), none)}
}

// unjudgedText states why a snapshot without a finding is not healthy: it is too short to show growth, much reserved
// memory holds no tensor, or segments come and go all the time. "" without a reason.
func (d *Device) unjudgedText() string {
	var limits []string
	if len(d.Steps) <= leastSteps {
		seen := fmt.Sprintf("the snapshot has %d steps", len(d.Steps))
		switch len(d.Steps) {
		case 0:
			seen = "the snapshot marks no steps"
		case 1:
			seen = "the snapshot has one step"
		}
		limits = append(limits, fmt.Sprintf("%s: a leak shows in %d steps or more", seen, leastSteps+1))
		if len(d.Steps) == 0 && d.Rise >= trifleBytes && float64(d.Rise) >= highPart*float64(d.Peak.Requested) {
			limits = append(limits, fmt.Sprintf("tensors hold %s more at its end than at its beginning", gpuprof.FormatBytes(float64(d.Rise))))
		}
	}
	if unused := d.PeakReserved - d.Peak.Requested; unused >= trifleBytes && float64(unused) >= unusedPart*float64(d.PeakReserved) {
		limits = append(limits, fmt.Sprintf("%s of the %s reserved hold no tensor at the peak", gpuprof.FormatBytes(float64(unused)), gpuprof.FormatBytes(float64(d.PeakReserved))))
	}
	if churn := d.churnText(); churn != "" {
		limits = append(limits, churn)
	}
	return strings.Join(limits, "; ")
}

// churnText states that the allocator keeps returning segments to the driver and requesting others; "" if not. It is
// for snapshots without steps, which have no finding about this.
func (d *Device) churnText() string {
	if len(d.Steps) > 0 || min(d.SegmentsReturned, d.SegmentsRequested) < leastChurn {
		return ""
	}
	return fmt.Sprintf("%d segments went back to the driver and %d were requested, as by torch.cuda.empty_cache() in a loop", d.SegmentsReturned, d.SegmentsRequested)
}

// leastChurn is the number of returned segments, and of requested segments, from which churnText reports them.
const leastChurn = 50

// unusedPart is the share of reserved memory without tensors from which unjudgedText reports it.
const unusedPart = 0.25

// holderText names what holds most of the peak: a category of known purpose with at least half of it, else the line
// with the largest share, if that is leastHolder or more; "" without either.
func (d *Device) holderText() string {
	percent := func(part int64) float64 { return 100 * float64(part) / float64(max(d.Peak.Requested, 1)) }
	before := ""
	for _, c := range d.Peak.Categories {
		switch {
		case c.Bytes <= 0 || 2*c.Bytes < d.Peak.Requested || c.Category == Other.String() || c.Category == Autograd.String():
		case c.Category == BeforeRecording.String():
			before = fmt.Sprintf(", %.0f %% of it %s", percent(c.Bytes), c.Category)
		default:
			return fmt.Sprintf(", %.0f %% of it %s", percent(c.Bytes), c.Category)
		}
	}
	i := slices.IndexFunc(d.Peak.Sites, func(s SiteBytes) bool { return s.Where != beforeRecording && s.Where != noFrame })
	if i < 0 || float64(d.Peak.Sites[i].Bytes) < leastHolder*float64(d.Peak.Requested) || before != "" && 2*d.Peak.Sites[i].Bytes < d.Peak.Requested {
		return before
	}
	return fmt.Sprintf(", the largest part of it, %.0f %%, from %s", percent(d.Peak.Sites[i].Bytes), d.Peak.Sites[i].Where)
}

// HasOneMoment reports whether the snapshot shows its end alone: it has no events that allocate or free much.
func (d *Device) HasOneMoment() bool { return d.Events == 0 || d.Still }

// largestLine names the line that holds most at the end; "" if no line is known.
func (d *Device) largestLine() string {
	for _, s := range d.End.Sites {
		if s.Where != beforeRecording && s.Where != noFrame {
			return fmt.Sprintf(", the largest line %s of it, %s", gpuprof.FormatBytes(float64(s.Bytes)), s.Where)
		}
	}
	return ""
}

// leastHolder is the smallest share of the peak with which holderText names a single line.
const leastHolder = 0.2

// outageText states which request failed and what held the memory.
func (d *Device) outageText() string {
	o := &d.OOMs[0]
	cause := map[string]string{"live": "live tensors fill the device", "fragmented": "no free piece is large enough", "limit": "the allocator's limit is reached"}[o.Cause]
	text := fmt.Sprintf("A request for %s failed while tensors took %s of %s reserved", gpuprof.FormatBytes(float64(o.Request)),
		gpuprof.FormatBytes(float64(o.Requested)), gpuprof.FormatBytes(float64(o.Reserved)))
	if cause == "" {
		return text + "."
	}
	return text + ": " + cause + "."
}

func (d *Device) growthText() string {
	g := &d.Growth[0]
	for i := range d.Growth {
		if d.Growth[i].PerStep > g.PerStep {
			g = &d.Growth[i]
		}
	}
	text := fmt.Sprintf("Memory from %s grows by %s in each step: from %s to %s over %d steps", g.Where, gpuprof.FormatBytes(g.PerStep),
		gpuprof.FormatBytes(float64(g.First)), gpuprof.FormatBytes(float64(g.Last)), g.Steps)
	if more := len(d.Growth) - 1; more > 0 {
		text += fmt.Sprintf("; %s", map[bool]string{true: "1 more line grows", false: fmt.Sprintf("%d more lines grow", more)}[more == 1])
	}
	return text + "."
}

// savingText states by how much the peak can fall, and why it is high.
func (d *Device) savingText(f *Finding) string {
	peak, what := d.Peak.Requested, "tensors"
	if f.Of == ofReserved {
		peak, what = d.PeakReserved, "reserved memory"
	}
	i := slices.IndexFunc(gpuprof.Rules(), func(r gpuprof.Rule) bool { return r.ID == f.Rule })
	cause := f.Rule
	if i >= 0 {
		cause = gpuprof.Rules()[i].Cause
	}
	return fmt.Sprintf("The peak of %s of %s could fall by up to %s (%.0f %%), since %s.",
		gpuprof.FormatBytes(float64(peak)), what, gpuprof.FormatBytes(float64(f.ClaimBytes)), 100*f.Share, cause)
}

// peakBar divides the memory at the reported moment by category.
func (d *Device) peakBar() *gpuprof.Bar {
	m, when := d.Shown()
	var parts []gpuprof.BarPart
	for _, c := range m.Categories {
		parts = append(parts, gpuprof.BarPart{Name: c.Category, Value: float64(c.Bytes)})
	}
	return gpuprof.WholeBar("memory at "+when, "B", float64(m.Requested), parts)
}
