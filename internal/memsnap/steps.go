package memsnap

import "strings"

// What PyTorch calls its own marks.
const (
	optimizerStep = "Optimizer.step#"
	zeroGrad      = "Optimizer.zero_grad#"
	profilerStep  = "ProfilerStep#"
)

// stepMarks are the pairs of a start and an end of what steps are counted by.
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

// byOptimizer says that the steps are those of an optimizer, which kinds of memory are
// inferred from.
func (r *Replay) byOptimizer() bool {
	return len(r.phases) > 0 && strings.HasPrefix(r.phases[0].Name, optimizerStep)
}
