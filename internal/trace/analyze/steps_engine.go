package analyze

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// engineStep describes the step names of one inference engine.
type engineStep struct {
	engine string
	name   *lazyregexp.Regexp
	// serves returns the numbers of requests in prefill and in decode, -1 unknown, from the submatches of name. It is
	// nil for engines that serve no text requests.
	serves func(m []string) (prefill, decode int)
}

func parseCount(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

func parseBothCounts(m []string) (prefill, decode int) { return parseCount(m[1]), parseCount(m[2]) }

func countBatch(bs string) int { return max(1, parseCount(bs)) }

// engineSteps are tried in order: SGLang's own step names come before names that it shares with other engines.
var engineSteps = []engineStep{
	{"SGLang", lazyregexp.New(`^step\[(DECODE|EXTEND|MIXED|TARGET_VERIFY|DRAFT_EXTEND)\b(?: bs=(\d+))?`), func(m []string) (int, int) {
		switch n := countBatch(m[2]); m[1] {
		case "EXTEND", "DRAFT_EXTEND":
			return n, 0
		case "MIXED":
			return 1, 1
		default:
			return 0, n
		}
	}},
	{"vLLM", lazyregexp.New(`^execute_new_(\d+)_cached_(\d+)`), parseBothCounts},
	{"vLLM", lazyregexp.New(`^execute_(?:\d+_)?context_(\d+)\(.*?\)_generation_(\d+)`), parseBothCounts},
	{"TensorRT-LLM", lazyregexp.New(`^\[Executor\] _forward_step(?: \d+)?: (\d+) ctx reqs,.*?(\d+) gen reqs`), parseBothCounts},
	{"ATOM", lazyregexp.New(`^(prefill|decode)\[bs=(\d+)`), func(m []string) (int, int) {
		if n := countBatch(m[2]); m[1] == "decode" {
			return 0, n
		}
		return countBatch(m[2]), 0
	}},
	{"xDiT", lazyregexp.New(`^execute_diffusion_\d+_`), nil},
	{"TensorRT", lazyregexp.New(`^(?:TensorRT: )?ExecutionContext::(?:execute|enqueue)`), nil},
}

func (x *Index) findEngineSteps(launches map[uint32]int) bool {
	for _, e := range engineSteps {
		ids := map[model.NameID]bool{}
		for id, name := range x.T.Names {
			if e.name.MatchString(name) {
				ids[model.NameID(id)] = true
			}
		}
		if len(ids) == 0 {
			continue
		}
		byLane := map[uint32][]int32{}
		for i := range x.T.Host {
			if h := &x.T.Host[i]; (h.Kind == model.Annotation || h.Kind == model.Op) && ids[h.Name] {
				byLane[h.Lane] = append(byLane[h.Lane], int32(i))
			}
		}
		events := x.busiestEvents(byLane, launches)
		if events == nil || e.engine == string(TensorRT) && x.isEnclosed(events) {
			continue
		}
		x.appendSteps(x.findGraphCalls(x.dropIdleSteps(events)))
		if x.StepSource = e.engine + " step"; len(x.Steps) == 0 || !x.acceptSteps() {
			continue
		}
		if x.Recording.Engine == "" && x.Recording.Program == PyTorch {
			x.Recording.Engine = e.engine
		}
		x.classifyServing(e)
		x.excludeBeforeWork()
		return true
	}
	return false
}

// dropIdleSteps removes steps without a launch, in which an engine has no requests. It keeps all steps if no launch is
// recorded in any of them.
func (x *Index) dropIdleSteps(steps []int32) []int32 {
	launches := map[int32]bool{} // by event
	for i := range x.T.GPU {
		l := x.T.GPU[i].Launch
		if l < 0 || len(steps) == 0 || x.T.Host[l].Lane != x.T.Host[steps[0]].Lane {
			continue
		}
		at := x.T.Host[l].Start
		k, _ := slices.BinarySearchFunc(steps, at+1, func(s int32, at int64) int { return cmp.Compare(x.T.Host[s].Start, at) })
		if k > 0 && at < x.T.Host[steps[k-1]].End {
			launches[steps[k-1]] = true
		}
	}
	if len(launches) == 0 {
		return steps
	}
	return slices.DeleteFunc(slices.Clone(steps), func(s int32) bool { return !launches[s] })
}

// isEnclosed reports whether the events are probably parts of the iterations of a loop: ranges of some repeating name
// take more time in total than the events.
func (x *Index) isEnclosed(events []int32) bool {
	var total int64
	for _, i := range events {
		total += x.T.Host[i].Dur()
	}
	return slices.ContainsFunc(x.groupRanges(x.isProgramRange), func(g *rangeGroup) bool {
		return len(g.events) >= minRepeats && g.total > total
	})
}

// excludeBeforeWork excludes the time before the first device operation if there is only one step. It treats this time
// like work launched before the recording, because the trace does not show how far the host was ahead of the device.
func (x *Index) excludeBeforeWork() {
	if len(x.Steps) != 1 {
		return
	}
	for i := range x.T.GPU {
		if l := x.T.GPU[i].Launch; l >= 0 && x.StepAt(x.T.Host[l].Start) == 0 {
			x.before = max(x.before, x.T.GPU[i].Start)
			return
		}
	}
}

// findGraphCalls replaces the steps of a diffusion engine by denoising steps: in each step, the calls of the compiled
// graph that is called most often. It returns the steps unchanged if they contain no repeated calls.
func (x *Index) findGraphCalls(steps []int32) []int32 {
	var out []int32
	for _, s := range steps {
		lo, hi := x.Inside(s)
		by := map[model.NameID][]int32{}
		for i := lo; i < hi; i++ {
			if h := &x.T.Host[i]; h.Kind == model.Annotation && compiledGraph.MatchString(x.T.Name(h.Name)) {
				by[h.Name] = append(by[h.Name], i)
			}
		}
		var most []int32
		for _, calls := range by {
			if len(calls) > len(most) || len(calls) == len(most) && len(most) > 0 && calls[0] < most[0] {
				most = calls
			}
		}
		if len(most) < minRepeats || !diffusion.MatchString(x.T.Name(x.T.Host[s].Name)) {
			return steps
		}
		out = append(out, most...)
	}
	slices.Sort(out)
	return out
}

var (
	compiledGraph = lazyregexp.New(`^## Call CompiledFxGraph`)
	diffusion     = lazyregexp.New(`^execute_diffusion_`)
)
