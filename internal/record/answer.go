package record

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof"
)

// AnswerLive is the first screen while a program is recorded: how busy the GPU was that waited longest for launches.
// Before any activity it counts the processes of h by state. It judges nothing, since only gpuprof analyze judges.
// gone reports that the recording has ended; dir is the folder as the user named it.
func AnswerLive(dir string, live []Live, h *Hook, gone bool) gpuprof.Answer {
	a := gpuprof.Answer{Verdict: "recording", Tone: gpuprof.TonePlain, Action: &gpuprof.Action{Text: "Wait for the end of the recording. Then gpuprof analyze reads it."}}
	ended := gone || len(live) > 0 && !slices.ContainsFunc(live, func(l Live) bool { return !l.Ended })
	if ended {
		a.Verdict = "recording ended"
		a.Action = &gpuprof.Action{Text: "Analyze the recording:", Command: "gpuprof analyze " + gpuprof.ShellWord(dir)}
	}
	if len(live) == 0 {
		a.Sentence = h.progress()
		return a
	}
	l, d := mostStarved(live)
	step := "no step is found yet"
	if l.StepNS > 0 {
		step = fmt.Sprintf("a step takes %s (median of %d)", gpuprof.FormatNS(l.StepNS), l.Steps)
	}
	if d == nil {
		a.Sentence = fmt.Sprintf("No GPU has worked in the last %s; %s.", gpuprof.FormatSeconds(l.Over.Seconds()), step)
		return a
	}
	a.Sentence = fmt.Sprintf("GPU %d works for %s of the last %s and waits for launches for %s; %s.", d.ID,
		gpuprof.FormatPercent(d.Busy, 3), gpuprof.FormatSeconds(l.Over.Seconds()), gpuprof.FormatPercent(d.Starved, 3), step)
	over := l.Over.Seconds()
	a.Bar = gpuprof.WholeBar(fmt.Sprintf("GPU %d, last", d.ID), "s", over, []gpuprof.BarPart{
		{Name: "busy", Value: d.Busy * over}, {Name: "waits for launches", Value: d.Starved * over},
		{Name: "idle, other", Value: max(1-d.Busy-d.Starved, 0) * over}})
	return a
}

// mostStarved returns the device that waited longest for launches and its process, or the first process and nil.
func mostStarved(live []Live) (l *Live, d *LiveDevice) {
	for i := range live {
		for k := range live[i].Devices {
			if x := &live[i].Devices[k]; d == nil || cmp.Compare(x.Starved, d.Starved) > 0 {
				l, d = &live[i], x
			}
		}
	}
	return cmp.Or(l, &live[0]), d
}

// progress counts the processes by recording state, as a sentence.
func (h *Hook) progress() string {
	var recording, written, waiting, aside int
	for i := range h.Processes {
		switch p := &h.Processes[i]; {
		case p.Aside != "":
			aside++
		case p.File != "":
			written++
		case p.Began:
			recording++
		default:
			waiting++
		}
	}
	var parts []string
	for _, n := range []struct {
		count int
		does  [2]string
	}{{recording, [2]string{"is recorded", "are recorded"}}, {written, [2]string{"has its recording", "have their recordings"}},
		{waiting, [2]string{"waits for steady steps", "wait for steady steps"}}, {aside, [2]string{"is not recorded", "are not recorded"}}} {
		if n.count > 0 {
			parts = append(parts, gpuprof.Plural(n.count, "process")+" "+n.does[min(n.count-1, 1)])
		}
	}
	if parts == nil {
		return "No process is recorded yet."
	}
	return gpuprof.AsSentence(gpuprof.WordList(parts, "and"))
}
