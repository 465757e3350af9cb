package analyze

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// engineStep is how an engine names its steps.
type engineStep struct {
	engine string
	name   *regexp.Regexp
	// serves gives the numbers of requests in prefill and in decode, -1 unknown; nil where steps
	// are no steps of serving.
	serves func(m []string) (prefill, decode int)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

func bothCounts(m []string) (prefill, decode int) { return number(m[1]), number(m[2]) }

// engineSteps are asked in order: SGLang's own names come before the ones that it shares.
var engineSteps = []engineStep{
	{"SGLang", regexp.MustCompile(`^step\[(DECODE|EXTEND|MIXED|TARGET_VERIFY|DRAFT_EXTEND)\b`), func(m []string) (int, int) {
		switch m[1] {
		case "EXTEND", "DRAFT_EXTEND":
			return 1, 0
		case "MIXED":
			return 1, 1
		}
		return 0, 1
	}},
	{"vLLM", regexp.MustCompile(`^execute_new_(\d+)_cached_(\d+)`), bothCounts},
	{"vLLM", regexp.MustCompile(`^execute_(?:\d+_)?context_(\d+)\(.*?\)_generation_(\d+)`), bothCounts},
	{"TensorRT-LLM", regexp.MustCompile(`^\[Executor\] _forward_step(?: \d+)?: (\d+) ctx reqs,.*?(\d+) gen reqs`), bothCounts},
	{"ATOM", regexp.MustCompile(`^(prefill|decode)\[bs=`), func(m []string) (int, int) {
		if m[1] == "prefill" {
			return 1, 0
		}
		return 0, 1
	}},
	{"xDiT", regexp.MustCompile(`^execute_diffusion_\d+_`), nil},
	{"TensorRT", regexp.MustCompile(`^(?:TensorRT: )?ExecutionContext::(?:execute|enqueue)`), nil},
}

// findEngineSteps takes the steps that an engine names, even where there is only one.
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
		lane, found := uint32(0), false
		for _, l := range x.lanes {
			if len(byLane[l.lane]) > 0 && (!found || launches[l.lane] > launches[lane]) {
				lane, found = l.lane, true
			}
		}
		if !found {
			continue
		}
		if e.engine == string(TensorRT) && x.enclosed(byLane[lane]) {
			continue
		}
		x.takeSteps(x.graphCalls(x.launching(byLane[lane])))
		if x.StepSource = e.engine + " step"; len(x.Steps) == 0 || !x.accept() {
			continue
		}
		if x.Recording.Engine == "" && x.Recording.Program == PyTorch {
			x.Recording.Engine = e.engine
		}
		x.Recording.Serving = x.servingOf(e)
		x.classifyServing(e)
		x.beginWithWork()
		return true
	}
	return false
}

// launching leaves out the steps in which nothing is launched: an engine that has no request goes through its loop too.
// All stay where no launch is known.
func (x *Index) launching(steps []int32) []int32 {
	launches := map[int32]bool{} // by place in steps
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

// enclosed says that the program names larger parts of its loop than some events: a range of its
// own repeats and takes more time than all of them.
func (x *Index) enclosed(events []int32) bool {
	var total int64
	for _, i := range events {
		total += x.T.Host[i].Dur()
	}
	return slices.ContainsFunc(x.rangeGroups(x.ownRange), func(g *rangeGroup) bool {
		return len(g.events) >= minRepeats && g.total > total
	})
}

// beginWithWork lets one step alone begin with its first operation: how far ahead of the device
// the host was before it is not in the recording.
func (x *Index) beginWithWork() {
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

// graphCalls are the calls of a compiled graph that repeat in each step of diffusion: one is a
// step of denoising. Steps without such calls stay.
func (x *Index) graphCalls(steps []int32) []int32 {
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
	compiledGraph = regexp.MustCompile(`^## Call CompiledFxGraph`)
	diffusion     = regexp.MustCompile(`^execute_diffusion_`)
)

// servingOf says which halves of serving the steps hold.
func (x *Index) servingOf(e engineStep) string {
	if e.serves == nil {
		return ""
	}
	prefill, decode := false, false
	for i := range x.Steps {
		if m := e.name.FindStringSubmatch(x.Steps[i].Name); m != nil {
			p, d := e.serves(m)
			prefill, decode = prefill || p > 0, decode || d > 0
		}
	}
	switch {
	case prefill && decode:
		return "mixed"
	case prefill:
		return "prefill"
	}
	return "decode"
}
