package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// findOptimizerSteps ends each step where an optimizer step ends. The time before the first end becomes a step too,
// which is dropped later.
func (x *Index) findOptimizerSteps(launches map[uint32]int) bool {
	var best *rangeGroup
	var all []*rangeGroup
	for _, g := range x.groupRanges(func(h *model.Host) bool { return x.Info[h.Name].Flags&NameOptimizer != 0 }) {
		all = append(all, g)
		if len(g.events) < 2 {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(len(g.events), len(best.events)), cmp.Compare(launches[g.lane], launches[best.lane])) > 0 {
			best = g
		}
	}
	if best == nil {
		return false
	}
	events, turns := x.findRarestOptimizer(best.lane, all)
	if events == nil {
		events = best.events
	}
	x.StepSource = fmt.Sprintf("%s, from the end of one to the end of the next", x.T.Name(x.T.Host[events[0]].Name))
	if turns > 1 {
		x.StepSource += fmt.Sprintf(", of %d optimizers that take turns", turns)
	}
	x.addStepsBetweenEnds(&rangeGroup{lane: best.lane, events: events}, func(k int) string { return fmt.Sprintf("optimizer step %d", k+1) })
	return true
}

// optimizerUpdate distinguishes optimizers whose ranges have equal names, by the numbers of launches and of thread
// blocks in a step. If the step launches nothing, launches is the number of its operators.
type optimizerUpdate struct {
	name             model.NameID
	launches, blocks int64
}

// findRarestOptimizer finds, among several optimizers that step alternately on a lane (thread), the one that steps
// least often. One step of this optimizer is one iteration of the program: a GAN's critic may step five times per step
// of the generator. events are the steps of this optimizer, turns is the number of optimizers. events is nil if the
// optimizers do not alternate or cannot be distinguished.
func (x *Index) findRarestOptimizer(lane uint32, groups []*rangeGroup) (events []int32, turns int) {
	var order []int32
	for _, g := range groups {
		if g.lane == lane {
			order = append(order, g.events...)
		}
	}
	slices.Sort(order)
	var kinds []optimizerUpdate
	steps := map[optimizerUpdate][]int32{}
	for _, i := range order {
		u := x.describeUpdate(i)
		if steps[u] == nil {
			kinds = append(kinds, u)
		}
		steps[u] = append(steps[u], i)
	}
	// The first step of an optimizer initializes its state and differs from all later ones.
	kinds = slices.DeleteFunc(kinds, func(u optimizerUpdate) bool { return len(steps[u]) < 2 })
	if len(kinds) < 2 {
		return nil, 0
	}
	rarest := slices.MinFunc(kinds, func(a, b optimizerUpdate) int { return cmp.Compare(len(steps[a]), len(steps[b])) })
	events = steps[rarest]
	for _, u := range kinds {
		if least, _ := countBetween(events, steps[u]); u != rarest && least == 0 {
			return nil, 0
		}
	}
	return events, len(kinds)
}

func (x *Index) describeUpdate(step int32) optimizerUpdate {
	u := optimizerUpdate{name: x.T.Host[step].Name}
	for _, g := range x.Launched(step) {
		u.launches++
		u.blocks += x.T.GPU[g].Blocks
	}
	if u.launches > 0 {
		return u
	}
	for i, end := x.Inside(step); i < end; i++ {
		if x.T.Host[i].Kind == model.Op {
			u.launches++
		}
	}
	return u
}
