package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Verdict is the outcome of a health check.
type Verdict string

// The verdicts.
const (
	Healthy    Verdict = "healthy"
	Unhealthy  Verdict = "unhealthy"
	NotChecked Verdict = "not checked" // no decisive source answered for some device
	Unknown    Verdict = "unknown"     // nothing to compare with: neither range nor sibling
	Failed     Verdict = "failed"      // a device could not be measured
)

// ExitCode returns the command's exit code for the verdict.
func (v Verdict) ExitCode() int {
	switch v {
	case Healthy:
		return 0
	case Unhealthy:
		return 1
	case NotChecked, Unknown:
		return 3
	}
	return 4
}

// Off is one figure or fault of a device that is not as expected.
type Off struct {
	Device   string         `json:"device"`
	Metric   string         `json:"metric"`
	Unit     string         `json:"unit"`
	Value    gpuprof.Number `json:"value"`
	Expected gpuprof.Number `json:"expected"` // siblings' median, or the violated end of the range
	Worse    gpuprof.Number `json:"worse_by"` // deviation as a fraction of Expected
	Against  string         `json:"against"`  // the reference: siblings, range, itself or reference
	// Cause is observed on the device if Evidence is set, else the usual cause.
	Cause    string `json:"cause"`
	Evidence bool   `json:"evidence"`
	Fix      string `json:"fix"`
}

// Report is the outcome of doctor --bench and of doctor --check.
type Report struct {
	gpuprof.Head
	Node     string    `json:"node,omitempty"` // the machine's name
	Measured time.Time `json:"measured,omitzero"`
	Verdict  Verdict   `json:"verdict"`
	ExitCode int       `json:"exit_code"`
	Reason   string    `json:"reason"` // one sentence
	Devices  []Card    `json:"devices"`
	Off      []Off     `json:"off"`
	// Links are the measured connections between GPUs, AllReduce a sum over all of them. They are not judged, and
	// absent with one GPU.
	Links     []Link     `json:"links,omitempty"`
	AllReduce *AllReduce `json:"all_reduce,omitempty"`
	// Notes inform without reporting a fault.
	Notes []string `json:"notes"`
}

// Figure identifies a figure of one of the cards.
type Figure struct {
	Card   int // index
	Metric string
}

// Beside is the comparison of a figure with the same figure on other machines. Off reports that the figure is worse.
type Beside struct {
	Expected float64 // median of the figure on the other machines
	Off      bool
}

// Judge compares each device with the cards of the same name and with ranges (may be nil). A figure in found (may be
// nil) is compared with other machines instead. The error is ErrDevice for a simulated device, whose times mean
// nothing. by is the tool that writes the report.
func Judge(found map[Figure]Beside, cards []Card, ranges *Ranges, by gpuprof.Tool) (*Report, error) {
	r := &Report{Head: document.NewHead(document.Health, by), Devices: cards, Off: []Off{}, Notes: []string{}}
	if len(cards) == 0 {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "judging the devices: there is none").WithFix("name one with --device")
	}
	compared := make([]bool, len(cards))
	for i := range cards {
		c := &cards[i]
		if c.Facts["simulated"] != "" {
			return nil, gpuprof.Errorf(gpuprof.ErrDevice, "judging %s: it is a simulated device, whose times mean nothing", c.Device).WithFix("run on a GPU")
		}
		r.Off = append(r.Off, reportedFaults(c)...)
		known, has := ranges.lookUp(c.Name)
		for _, name := range judgedMetrics() {
			m, ok := c.Metric(name)
			if !ok {
				continue
			}
			if f, ok := found[Figure{i, name}]; ok {
				compared[i] = true
				if f.Off {
					r.Off = append(r.Off, newOff(c, m, f.Expected, "reference", nil))
				}
				continue
			}
			off := false
			if median, peers := siblingMedian(cards, i, name); len(peers) > 0 {
				compared[i] = true
				if rules[name].worseShare(float64(m.Value), median) > rules[name].slack {
					r.Off, off = append(r.Off, newOff(c, m, median, "siblings", peers)), true
				}
			}
			if has {
				compared[i] = r.checkRange(c, m, known, off) || compared[i]
			}
		}
		r.Notes = append(r.Notes, conditionNotes(c)...)
	}
	r.Notes = append(r.Notes, sourceNotes(cards)...)
	r.setVerdict(compared)
	return r, nil
}

// JudgeAccounts judges fault reports of devices and system, without measurements. by is the tool that writes the
// report.
func JudgeAccounts(cards []Card, by gpuprof.Tool) *Report {
	r := &Report{Head: document.NewHead(document.Health, by), Devices: cards, Off: []Off{}, Notes: []string{}}
	compared := make([]bool, len(cards))
	for i := range cards {
		compared[i] = true
		r.Off = append(r.Off, reportedFaults(&cards[i])...)
		if cards[i].Error != "" {
			r.Notes = append(r.Notes, cards[i].Device+": "+cards[i].Error)
		}
	}
	r.Notes = append(r.Notes, sourceNotes(cards)...)
	r.setVerdict(compared)
	switch r.Verdict {
	case Healthy:
		r.Reason = "no device reports a fault (no figure was measured)"
	case Failed, Unhealthy:
		r.Reason = strings.Replace(r.Reason, "could not be measured to the end", "could not be asked", 1)
	}
	return r
}

// Faulty reports whether a device or the system itself reports a fault.
func (r *Report) Faulty() bool {
	return slices.ContainsFunc(r.Off, func(o Off) bool { return o.Against == "itself" })
}

// siblingMedian returns a metric's median over other devices of the same name, and their conditions.
func siblingMedian(cards []Card, i int, metric string) (median float64, peers []Condition) {
	var v []float64
	for j := range cards {
		if j == i || cards[j].Name != cards[i].Name {
			continue
		}
		if m, ok := cards[j].Metric(metric); ok {
			v = append(v, float64(m.Value))
			peers = append(peers, cards[j].Condition)
		}
	}
	if len(v) == 0 {
		return 0, nil
	}
	slices.Sort(v)
	k := len(v) / 2
	if len(v)%2 == 0 {
		return (v[k-1] + v[k]) / 2, peers
	}
	return v[k], peers
}

// worseShare returns the share of expected by which v is worse; negative if better.
func (r rule) worseShare(v, expected float64) float64 {
	return float64(r.better) * (expected - v) / expected
}

// checkRange compares a figure with the shipped range and reports whether there is one. If already is set, the figure
// is listed as worse than its siblings and is not listed again.
func (r *Report) checkRange(c *Card, m Metric, known DeviceRanges, already bool) bool {
	span, ok := known.Metrics[m.Name]
	if !ok {
		return false
	}
	v := float64(m.Value)
	end, beyond := span[0], span[1]
	if rules[m.Name].better < 0 {
		end, beyond = span[1], span[0]
	}
	switch {
	case rules[m.Name].worseShare(v, end) > 0 && !already:
		r.Off = append(r.Off, newOff(c, m, end, "range", nil))
	case rules[m.Name].worseShare(v, beyond) < 0:
		r.Notes = append(r.Notes, fmt.Sprintf("%s: %s is better than the shipped range of %s, which may be too narrow", c.Device, m.Name, c.Name))
	}
	return true
}

func newOff(c *Card, m Metric, expected float64, against string, peers []Condition) Off {
	o := Off{Device: c.Device, Metric: m.Name, Unit: m.Unit, Value: m.Value, Expected: gpuprof.Number(expected), Against: against,
		Worse: gpuprof.Number(rules[m.Name].worseShare(float64(m.Value), expected))}
	o.Cause, o.Evidence, o.Fix = explain(c, m.Name, peers)
	return o
}

// reportedFaults lists the faults that a device reports itself. A low link generation is none: links enter and leave
// power saving, so it may explain a slow copy but proves no fault.
func reportedFaults(c *Card) []Off {
	var out []Off
	d := c.Condition
	if d.LinkWidth > 0 && d.LinkWidth < d.LinkWidthMax {
		out = append(out, Off{Device: c.Device, Metric: "link_width", Unit: "lanes", Value: gpuprof.Number(d.LinkWidth), Expected: gpuprof.Number(d.LinkWidthMax),
			Worse: gpuprof.Number(float64(d.LinkWidthMax-d.LinkWidth) / float64(d.LinkWidthMax)), Against: "itself", Cause: linkCause(d), Evidence: true, Fix: linkFix})
	}
	return append(out, c.Faults()...)
}

// setVerdict sets the worst verdict of all devices. A reported fault counts even if measurements failed.
func (r *Report) setVerdict(compared []bool) {
	var failed, alone []string
	var unchecked deviceTexts
	for i := range r.Devices {
		c := &r.Devices[i]
		switch {
		case c.Error != "":
			failed = append(failed, c.Device)
		case !c.Checked():
			unchecked.add(c.Device, c.Silent())
		case !compared[i] && !c.Faulty():
			alone = append(alone, c.Device)
		}
	}
	unmeasured := ""
	if len(failed) > 0 {
		unmeasured = joinNames(failed) + " could not be measured to the end"
	}
	switch {
	case unmeasured != "" && !r.Faulty():
		r.Verdict, r.Reason = Failed, unmeasured
	case len(r.Off) > 0:
		r.Verdict, r.Reason = Unhealthy, unhealthyText(r.offNames())
		if unmeasured != "" {
			r.Reason += "; " + unmeasured
		}
	case len(unchecked.texts) > 0:
		r.Verdict, r.Reason = NotChecked, strings.Join(unchecked.formatLines(), "; ")
	case len(alone) > 0:
		r.Verdict, r.Reason = Unknown, fmt.Sprintf("nothing to compare %s with: no sibling of the same name here, and no range shipped for it (not yet measured)", joinNames(alone))
	default:
		r.Verdict, r.Reason = Healthy, "every figure is within its limits"
	}
	r.ExitCode = r.Verdict.ExitCode()
	if r.Verdict != NotChecked {
		for _, line := range unchecked.formatLines() {
			r.Notes = append(r.Notes, "not checked: "+line)
		}
	}
}

func unhealthyText(who []string) string {
	if len(who) == 1 {
		return who[0] + " is not as fast or as sound as it should be"
	}
	return joinNames(who) + " are not as fast or as sound as they should be"
}

// offNames returns the devices that deviate, each once.
func (r *Report) offNames() []string {
	var who []string
	for _, o := range r.Off {
		if name := r.Identity(o.Device); !slices.Contains(who, name) {
			who = append(who, name)
		}
	}
	return who
}

// Identity returns Card.Identity of the device with that name; the name itself if the report has no such device.
func (r *Report) Identity(device string) string {
	if i := slices.IndexFunc(r.Devices, func(c Card) bool { return c.Device == device }); i >= 0 {
		return r.Devices[i].Identity()
	}
	return device
}

func joinNames(names []string) string {
	switch len(names) {
	case 1:
		return names[0]
	case 2:
		return names[0] + " and " + names[1]
	}
	text := ""
	for _, n := range names[:len(names)-1] {
		text += n + ", "
	}
	return text + "and " + names[len(names)-1]
}
