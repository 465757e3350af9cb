package gpuprof

import "fmt"

// Warning is something the reader must know before believing a figure. It is
// data, and it names the next step.
type Warning struct {
	Code string `json:"code"` // stable, kebab-case: "not-settled"
	Text string `json:"text"` // one sentence: what was seen
	Fix  string `json:"fix"`  // what to do about it
}

func (w Warning) String() string { return fmt.Sprintf("%s: %s; %s", w.Code, w.Text, w.Fix) }

// Finding is advice with its evidence. The bound ClaimS never exceeds the
// measured time it accounts for.
type Finding struct {
	Rule     string         `json:"rule"`
	Stage    string         `json:"stage"`
	Knob     string         `json:"knob"`
	From     string         `json:"from"`
	To       string         `json:"to"`
	ClaimS   float64        `json:"claim_s"` // "up to", seconds a step
	Evidence map[string]any `json:"evidence"`
	Command  string         `json:"command"` // what tests it
	PyTorch  string         `json:"pytorch"` // the line to change
}
