package gpuprof

import (
	"cmp"
	"fmt"
	"strings"
)

// Diagnosis holds the results of gpuprof doctor: checks of the machine and its devices.
type Diagnosis struct {
	Head
	Checks []CheckLine `json:"checks"`
}

// Vital returns the first missing line without which nothing can be measured.
func (d *Diagnosis) Vital() (missing CheckLine, any bool) {
	for _, l := range d.Checks {
		if l.Vital && l.State == Missing {
			return l, true
		}
	}
	return CheckLine{}, false
}

// Answer states what this machine can measure, and the first obstacle to more.
func (d *Diagnosis) Answer() Answer {
	if v, bad := d.Vital(); bad {
		return Answer{Verdict: "nothing to measure with", Tone: ToneBad, Sentence: fmt.Sprintf("No measurement is possible here: %s: %s.", v.Name, cmp.Or(v.Reason, "it is missing")), Action: fixOf(v)}
	}
	first := d.first()
	switch {
	case len(d.Checks) == 0:
		return Answer{Verdict: "not looked at", Tone: ToneUnsure, Sentence: "Nothing was looked at."}
	case first == nil:
		return Answer{Verdict: "ready", Tone: ToneGood, Sentence: fmt.Sprintf("Everything that was looked at is ok: %s.", Plural(len(d.Checks), "thing"))}
	}
	text := fmt.Sprintf("%s of %s ok; %s: %s", number(d.count(OK)), Plural(len(d.Checks), "thing"), first.Name, cmp.Or(first.Reason, first.Found))
	a := Answer{Verdict: "limited", Tone: ToneUnsure, Action: fixOf(*first)}
	if noGPU := d.Missing(first.Name); len(noGPU) > 0 {
		a.Verdict = "no GPU"
		text = fmt.Sprintf("This machine measures the CPU and no GPU, for want of the %s: %s", first.Name, cmp.Or(first.Reason, first.Found))
	}
	a.Sentence = text + "."
	return a
}

// Missing returns the names of the lines whose cause is the line named because.
func (d *Diagnosis) Missing(because string) (names []string) {
	for _, l := range d.Checks {
		if l.Because == because && because != "" {
			names = append(names, l.Name)
		}
	}
	return names
}

// first returns the most important line that is not ok; nil if all are ok. The order is: a cause of other missing
// lines, then the devices, then other missing lines, then limited ones, and last lines that need no fix.
func (d *Diagnosis) first() *CheckLine {
	rank := func(l *CheckLine) int {
		switch {
		case l.State == OK || l.Because != "":
			return 0
		case len(d.Missing(l.Name)) > 0:
			return 5
		case strings.HasPrefix(l.Fix, "none needed"):
			return 1
		case l.Name == "gpu devices":
			return 4
		case l.State == Missing:
			return 3
		}
		return 2
	}
	var top *CheckLine
	for i := range d.Checks {
		if l := &d.Checks[i]; rank(l) > 0 && (top == nil || rank(l) > rank(top)) {
			top = l
		}
	}
	return top
}

func (d *Diagnosis) count(state CheckState) (n int) {
	for _, l := range d.Checks {
		if l.State == state {
			n++
		}
	}
	return n
}

func number(n int) string {
	if n == 0 {
		return "None"
	}
	return fmt.Sprint(n)
}

func fixOf(l CheckLine) *Action {
	if strings.HasPrefix(l.Fix, "none needed") {
		return nil
	}
	return FixAction(l.Fix)
}

// AsSentence capitalizes a text and ends it with a full stop.
func AsSentence(text string) string {
	if text == "" {
		return ""
	}
	if text[0] >= 'a' && text[0] <= 'z' {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if !strings.ContainsAny(text[len(text)-1:], ".!?") {
		text += "."
	}
	return text
}
