package memsnap

import "strings"

// Names of PyTorch's own marks.
const (
	optimizerStep = "Optimizer.step#"
	zeroGrad      = "Optimizer.zero_grad#"
	profilerStep  = "ProfilerStep#"
)

// stepMarks returns the pairs of start and end marks of steps.
func (r *Replay) stepMarks() [][2]Note {
	pairs := map[string][][2]Note{}
	open := map[string]Note{}
	count := map[string]int{}
	for _, n := range r.S.Notes {
		name := n.Name
		switch {
		case strings.HasPrefix(name, optimizerStep):
			name = optimizerStep
		case strings.HasPrefix(name, profilerStep):
			name = profilerStep
		case strings.HasPrefix(name, zeroGrad):
			continue
		}
		if n.Start {
			open[n.Name] = n
			continue
		}
		if from, ok := open[n.Name]; ok {
			delete(open, n.Name)
			pairs[name] = append(pairs[name], [2]Note{from, n})
			count[name]++
		}
	}
	best := ""
	for _, name := range []string{optimizerStep, profilerStep} {
		if count[name] > 0 {
			return pairs[name]
		}
	}
	for name, n := range count {
		if n > count[best] || n == count[best] && name < best {
			best = name
		}
	}
	return pairs[best]
}

// hasOptimizerSteps reports whether steps end with an optimizer, which the categories need.
func (r *Replay) hasOptimizerSteps() bool {
	return len(r.phases) > 0 && strings.HasPrefix(r.phases[0].Name, optimizerStep)
}
