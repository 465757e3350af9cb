package memsnap

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof"
)

// At is a moment that the user asked for.
type At struct {
	Name string `json:"name"` // "step 3", "event 120", "1.5s", "the end"
	Moment
}

// fixAt lists the values of --at.
const fixAt = "give peak, end, oom, step:N, event:N, or a time from the first event on such as 1.5s"

// Look adds the state at a moment to each device that has it: "peak", "end", "oom" (the first error), "step:N" (the
// step's maximum), "event:N", or a time since the first event. It returns ErrUsage for other texts and missing
// moments.
func (a *Analysis) Look(text string) error {
	kind, number, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(number)
	after, timeErr := time.ParseDuration(text)
	switch {
	case slices.Contains([]string{"peak", "end", "oom"}, text):
	case (kind == "step" || kind == "event") && err == nil:
	case timeErr == nil && after >= 0:
		kind = "time"
	default:
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading --at %s: it is no moment", text).WithFix(fixAt)
	}
	found := false
	for i := range a.Devices {
		d := &a.Devices[i]
		if d.At = d.findMoment(kind, n, after); d.At != nil {
			found = true
		}
	}
	if !found {
		return gpuprof.Errorf(gpuprof.ErrUsage, "showing the memory at %s: the recording has no such moment", text).WithFix("%s", a.momentsText())
	}
	return nil
}

func (a *Analysis) momentsText() string {
	d := &a.Devices[0]
	return fmt.Sprintf("it has %d events (from 0), %d steps (from 1), %d out-of-memory errors", d.Events, len(d.Steps), len(d.OOMs)+d.MoreOOMs)
}

func (d *Device) findMoment(kind string, n int, after time.Duration) *At {
	switch {
	case kind == "peak":
		return &At{"the peak", d.Peak}
	case kind == "end":
		return &At{"the end", d.End}
	case kind == "oom" && len(d.OOMs) > 0:
		return &At{"the out-of-memory error", d.OOMs[0].Moment}
	case kind == "event" && n >= 0 && n < d.Events:
		return d.lastMatching(fmt.Sprintf("event %d", n), func(event int, _ int64, _ Level) bool { return event == n })
	case kind == "step" && n >= 1 && n <= len(d.Replay.phases):
		most, p := int64(-1), d.Replay.phases[n-1]
		return d.lastMatching(fmt.Sprintf("the most of step %d", n), func(event int, _ int64, l Level) bool {
			if event < int(p.First) || event >= int(p.Last) || l.Requested <= most {
				return false
			}
			most = l.Requested
			return true
		})
	case kind == "time" && d.Replay.S.hasTime:
		first, last := int64(-1), after.Microseconds()
		at := d.lastMatching(after.String(), func(_ int, micros int64, _ Level) bool {
			if first < 0 {
				first = micros
			}
			return micros-first <= last
		})
		if d.Events > 0 && d.duration() >= last {
			return at
		}
	}
	return nil
}

func (d *Device) duration() int64 {
	first, last := int64(-1), int64(0)
	d.Replay.Levels(func(_ int, _ Action, _ Level, micros int64) {
		if first < 0 {
			first = micros
		}
		last = micros
	})
	return last - first
}

// lastMatching returns the moment after the last event that wanted accepts.
func (d *Device) lastMatching(name string, wanted func(event int, micros int64, l Level) bool) *At {
	t := topEvent{event: -1}
	d.Replay.Levels(func(event int, _ Action, l Level, micros int64) {
		if wanted(event, micros, l) {
			t = topEvent{event, l, micros}
		}
	})
	return &At{name, d.account.momentAt(t.event, t.level, t.micros)}
}

// Shown returns the reported moment: the requested one, else the first out-of-memory error, else the peak.
func (d *Device) Shown() (m *Moment, when string) {
	switch {
	case d.At != nil:
		return &d.At.Moment, d.At.Name
	case len(d.OOMs) > 0:
		return &d.OOMs[0].Moment, "the out-of-memory error"
	case d.HasOneMoment():
		return &d.End, "the end"
	}
	return &d.Peak, "the peak"
}

// BlockBytes are live blocks of one line and size.
type BlockBytes struct {
	Where    string `json:"where"`
	Category string `json:"category"`
	Bytes    int64  `json:"bytes"` // requested bytes of each block
	Blocks   int    `json:"blocks"`
	Step     int    `json:"first_step"` // first step that allocated such a block; 0 unknown
	// Events is the longest lifetime of these blocks, in events; 0 if allocated before the recording or never freed.
	Events int `json:"events"`
}

const mostBlocks = 20

func (a *momentBuilder) largestBlocks(live []allocation) []BlockBytes {
	type same struct {
		where string
		kind  Category
		size  uint64
	}
	at := map[same]int{}
	all := []BlockBytes{}
	for i := range live {
		b := &live[i]
		kind := a.kinds.classify(b)
		key := same{a.siteOf(Held{Stack: a.r.S.originOf(b).stack, Category: kind}), kind, b.size}
		k, ok := at[key]
		if !ok {
			k = len(all)
			at[key] = k
			all = append(all, BlockBytes{Where: key.where, Category: kind.String(), Bytes: int64(b.size)})
		}
		o := &all[k]
		o.Blocks++
		if b.born == never {
			continue
		}
		if step := a.r.stepOf(int(b.born)); o.Step == 0 || step < o.Step {
			o.Step = step
		}
		if b.done != never {
			o.Events = max(o.Events, int(b.done-b.born))
		}
	}
	slices.SortStableFunc(all, func(x, y BlockBytes) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return all[:min(len(all), mostBlocks)]
}
