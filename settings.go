package gpuprof

import (
	"strconv"
	"strings"
)

// Settings are knob values by name.
type Settings map[string]string

// Int reads a canonical whole-number setting; Resolve has checked it. A word
// ("all") is 0.
func (s Settings) Int(name string) int {
	v, _ := strconv.Atoi(s[name])
	return v
}

// Float reads a canonical number setting; Resolve has checked it.
func (s Settings) Float(name string) float64 {
	v, _ := strconv.ParseFloat(s[name], 64)
	return v
}

// Every is the number of steps that a setting of an EveryKnob names; 0 is never.
func (s Settings) Every(name string) int {
	if s[name] == "step" {
		return 1
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(s[name], "every:"))
	return n
}

// On reports whether a knob with the values off and on is on.
func (s Settings) On(name string) bool { return s[name] == "on" }
