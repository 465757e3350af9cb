package gpuprof

import (
	"strconv"
	"strings"
)

// Settings are knob values by name.
type Settings map[string]string

// Int returns a setting as an int; 0 for a word such as "all". Resolve has checked the value.
func (s Settings) Int(name string) int {
	v, _ := strconv.Atoi(s[name])
	return v
}

// Float returns a setting as a float64; Resolve has checked that it is a number.
func (s Settings) Float(name string) float64 {
	v, _ := strconv.ParseFloat(s[name], 64)
	return v
}

// Every returns the interval in steps of an EveryKnob's setting; 0 is never.
func (s Settings) Every(name string) int {
	if s[name] == "step" {
		return 1
	}
	n, _ := strconv.Atoi(strings.TrimPrefix(s[name], "every:"))
	return n
}

// On reports whether a knob with the values off and on is on.
func (s Settings) On(name string) bool { return s[name] == "on" }
