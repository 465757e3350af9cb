package record

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gpuprof/gpuprof"
)

// AnswerLive summarizes a recording in progress: the busy share of the GPU that waited longest for launches, or without
// activity the number of processes of h in each state. It judges nothing; gpuprof analyze does. gone reports that the
// recording has ended; dir is the folder as the user named it.
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

// Answer states how the program ended and what was recorded. It judges no time; gpuprof analyze does.
func (r *Result) Answer() gpuprof.Answer {
	a := gpuprof.Answer{Verdict: "recorded", Tone: gpuprof.TonePlain, Sentence: r.EndText()}
	switch {
	case len(r.Traces) > 0:
		a.Sentence += ", and left " + gpuprof.Plural(len(r.Traces), "recording")
		a.Action = &gpuprof.Action{Text: "Give the folder of this file to gpuprof analyze."}
	case len(r.Warnings) > 0:
		a.Verdict, a.Tone = "not recorded", gpuprof.ToneUnsure
		a.Sentence += ": " + r.Warnings[0].Text
		a.Action = gpuprof.FixAction(r.Warnings[0].Fix)
	default:
		a.Verdict, a.Tone = "not recorded", gpuprof.ToneUnsure
		a.Sentence += ", and nothing of it was recorded"
	}
	switch {
	case r.ExitCode == 0 || r.Stopped:
	case r.Signal == syscall.SIGINT.String() && len(r.Traces) > 0: // the user ended it
	default:
		a.Verdict, a.Tone = "program failed", gpuprof.ToneBad
		if len(r.Traces) == 0 {
			a.Action = &gpuprof.Action{Text: "Correct the program's own failure, then record it again."}
		}
	}
	a.Sentence = strings.TrimSuffix(a.Sentence, ".") + "." // no capital: it begins with a file name
	return a
}

// AnswerIn is the answer with the command that analyzes the folder of the recording, as the user named it.
func (r *Result) AnswerIn(dir string) gpuprof.Answer {
	a := r.Answer()
	if len(r.Traces) > 0 {
		a.Action = &gpuprof.Action{Text: "Analyze the recording:", Command: "gpuprof analyze " + gpuprof.ShellWord(dir)}
	}
	return a
}

// EndText states how the program ended and after how long: "train.py ended with exit code 0 after 12.3 s".
func (r *Result) EndText() string {
	name, how := "the program", fmt.Sprintf("ended with exit code %d", r.ExitCode)
	if len(r.Command) > 0 {
		name = filepath.Base(r.Command[0])
	}
	switch {
	case r.Stopped:
		how = "was ended because its steps are recorded (--stop-after)"
	case r.Signal != "":
		how = fmt.Sprintf("was ended by a signal (%s)", r.Signal)
	}
	return fmt.Sprintf("%s %s after %s", name, how, gpuprof.FormatSeconds(r.WallS))
}

// mostStarved returns the device that waited longest for launches, and its process; without devices the first process
// and nil.
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
