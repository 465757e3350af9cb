package tuneprogram

import (
	"errors"
	"fmt"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/compare"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// confirmSet compares a set with the unchanged program by up to three stages of a gate. If the budget ends a stage
// early, the pairs measured so far decide, if they suffice.
func (e *engine) confirmSet(s Set) (tune.Confirmation, []pair, error) {
	c := tune.Confirmation{Knobs: s.Knobs(), Level: 0.95}
	g := compare.NewGate(compare.Options{Seed: e.out.Seed, Tool: e.Tool})
	var all []pair
	v, starved := verdict{more: true}, false
	for stage := 1; stage <= 3 && v.more && !starved; stage++ {
		pairs, err := e.measurePairs(s, e.pairsOfStage(s, g, stage, all), uint64(stage))
		all = append(all, pairs...)
		if errors.Is(err, errFailed) {
			c.Reason = err.Error()
			return c, all, nil
		}
		if starved = errors.Is(err, errStarved); err != nil && !starved {
			return c, all, err
		}
		if v, err = v.addStage(g, stage, pairs, all); err != nil {
			return c, all, err
		}
		c.Ratio, c.Interval, c.CI95, c.Processes = v.ratio, v.ci, v.ci, 2*len(all)
	}
	if c.Confirmed = v.confirmed; c.Confirmed {
		return e.lossesHold(s, c, all)
	}
	if len(all) < earlyPairs {
		c.Reason = fmt.Sprintf("the budget left no time for %d pairs of fresh processes: they need about %s",
			earlyPairs, e.confirmTime(s))
		return c, all, nil
	}
	c.Reason = uncertainText(v, len(all))
	if starved && len(all) >= gatePairs {
		c.Reason += ", and the budget left no time for more"
	}
	return c, all, nil
}

// pairsOfStage returns the number of pairs of a stage: as many as the gate can use, fewer if the budget has no room for
// them. A later stage has at least the pairs that complete the sign test, or that the gate needs for a decision.
func (e *engine) pairsOfStage(s Set, g *compare.Gate, stage int, all []pair) int {
	n, least := gatePairs, earlyPairs
	if stage > 1 {
		n, least = min(max(g.Useful(), gatePairs), mostPairs), gatePairs
		if missing := signTestPairs - len(all); missing > 0 && haveGain(all) {
			least = min(least, missing)
		}
	}
	for n > least && !e.fitsBudget(n, n, s) {
		n--
	}
	return n
}

// addStage returns the verdict after a further stage. The gate judges the stage's pairs, unless the budget left too few
// of them, and a sign test judges all pairs.
func (v verdict) addStage(g *compare.Gate, stage int, pairs, all []pair) (verdict, error) {
	least := gatePairs
	if stage == 1 {
		least = earlyPairs
	}
	if v.more = false; len(pairs) >= least {
		var err error
		if v, err = judgePairs(g, stage, pairs); err != nil {
			return v, err
		}
		if v.ci == [2]float64{} { // the gate gives no interval for so few pairs
			_, v.ci = estimateRatio(gainsOf(pairs))
		}
	}
	if len(pairs) < least {
		v.ratio, v.ci = estimateRatio(gainsOf(all))
	}
	if agreeOnGain(all) {
		v.confirmed, v.more = true, false
	}
	return v, nil
}

func uncertainText(v verdict, pairs int) string {
	if v.ci == [2]float64{} {
		return fmt.Sprintf("not certain from %s of fresh processes", gpuprof.Plural(pairs, "pair"))
	}
	text := fmt.Sprintf("x%.2f the speed (95 %% interval %.2f to %.2f) in %s of fresh processes", v.ratio, v.ci[0], v.ci[1], gpuprof.Plural(pairs, "pair"))
	switch {
	case v.ci[1] < 1+margin:
		return text + ", no gain of 2 %"
	case v.ci[0] > 1+margin:
		text += " is likely a gain, and a recommendation needs p <= 0.001"
	default:
		text += " is not certain"
	}
	if pairs < gatePairs {
		text += fmt.Sprintf("; the budget had no time for %d pairs", gatePairs)
	}
	return text
}

func judgePairs(g *compare.Gate, stage int, pairs []pair) (verdict, error) {
	var c *compare.Comparison
	var err error
	switch stage {
	case 1:
		c, err = g.Stage1(blocksOf(pairs))
	case 2:
		c, err = g.Stage2(blocksOf(pairs))
	default:
		c, err = g.Stage3(blocksOf(pairs))
	}
	if err != nil {
		return verdict{}, err
	}
	return verdictOf(c, stage == 1 && len(g.Escalated()) > 0 || stage == 2 && len(g.Doubtful()) > 0), nil
}

// measurePairs runs n pairs of fresh processes in random order. It returns errStarved, with the pairs measured so far,
// if the budget is too short.
func (e *engine) measurePairs(s Set, n int, seed uint64) (out []pair, err error) {
	if !e.fitsBudget(n, n, s) {
		return nil, errStarved
	}
	for _, second := range compare.Order(n, seed) {
		p, err := e.runPair(nil, s, !second, "confirming "+s.Key())
		if err != nil {
			return out, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (e *engine) confirmTime(s Set) time.Duration {
	return (earlyPairs * (e.timeOf(s) + e.times[""])).Round(time.Second)
}

// lossesHold rejects a confirmed set if it changed the losses of a run. Values of --try are never rejected.
func (e *engine) lossesHold(s Set, c tune.Confirmation, pairs []pair) (tune.Confirmation, []pair, error) {
	if s.mostChange() == Users {
		return c, pairs, nil
	}
	for _, p := range pairs {
		check, err := e.sameTraining(s, p.tuned)
		if err != nil {
			return c, pairs, err
		}
		if check.Verdict == tune.Changed {
			c.Confirmed, c.Reason = false, "it is faster and changes the training: the losses differ by more than "+e.allowedText(s.mostChange())
			return c, pairs, nil
		}
	}
	return c, pairs, nil
}
