package analyze

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
	"github.com/gpuprof/gpuprof/internal/trace/opcost"
)

// stepTokens are the forms in which the names of steps count tokens, the more exact first: the sums of queries and of
// context of vLLM's detailed names and of SGLang's, then tokens, then requests, which decode one token each.
var stepTokens = []*lazyregexp.Regexp{
	lazyregexp.New(`_generation_\d+\(sq(\d+)sk(\d+)`),
	lazyregexp.New(`\bg_sq=(\d+).*?\bg_sk=(\d+)`),
	lazyregexp.New(`_generation_\d+\((\d+)[)_]`),
	lazyregexp.New(`^decode\[.*?\btok=(\d+)`),
	lazyregexp.New(`^step\[DECODE bs=(\d+)`),
	lazyregexp.New(`(\d+) gen reqs`),
	lazyregexp.New(`^execute_new_0_cached_(\d+)`),
}

// parseTokens returns the tokens that a step of decode computes, and those that it reads from the cache, by its name;
// 0 unknown.
func parseTokens(name string) (tokens, context int64) {
	for _, form := range stepTokens {
		m := form.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		count := func(i int) int64 {
			if i >= len(m) {
				return 0
			}
			n, _ := strconv.ParseInt(m[i], 10, 64) // 0 where it is no number of this size: unknown
			return n
		}
		return count(1), count(2)
	}
	return 0, 0
}

// generation counts the attention of a step by the length of its queries.
type generation struct {
	decode, prefill int
	tokens, context int64 // of one layer
}

// samplingSteps takes the ends of the operator that chooses tokens as borders, in a program that generates and marks no
// steps: attention with one query for each sequence, or frames of transformers' generate, show it.
func (x *Index) samplingSteps(launches map[uint32]int) bool {
	if x.Recording.Engine != huggingFace && !x.hasSingleQueries() {
		return false
	}
	var best *rangeGroup
	for _, g := range x.rangeGroups(func(h *model.Host) bool {
		name := x.T.Name(h.Name)
		return h.Kind == model.Op && (name == "aten::argmax" || name == "aten::multinomial")
	}) {
		if len(g.events) >= minRepeats && (best == nil || launches[g.lane] > launches[best.lane]) {
			best = g
		}
	}
	if best == nil {
		return false
	}
	x.StepSource = best.name + ", from the end of one to the end of the next"
	x.stepsBetweenEnds(best, func(k int) string { return fmt.Sprintf("token %d", k+1) })
	return true
}

// hasSingleQueries reports whether attention with one query for each sequence was recorded.
func (x *Index) hasSingleQueries() (has bool) {
	x.eachAttention(func(_ *model.Host, q, keys []int64) { has = has || q[2] == 1 && keys[2] > 1 })
	return has
}

// scaledAttention is the operator whose operands show the phase of generation.
const scaledAttention = "aten::scaled_dot_product_attention"

// classifyGeneration finds the phases of a program that generates without an engine (transformers, a loop of its
// own): a step whose attention has one query for each sequence decodes. Other programs have such attention too, so
// the keys must grow by a token from one such step to the next, or a name must show transformers' generate. It needs
// recorded shapes.
func (x *Index) classifyGeneration() {
	if x.Recording.Serving != "" || x.Recording.Program != PyTorch || len(x.Steps) == 0 || x.Trains() {
		return
	}
	of := x.countAttention()
	prefill, decode, grows := 0, 0, x.Recording.Engine == huggingFace
	for k := range of {
		switch g := &of[k]; {
		case g.decode > 0 && g.prefill == 0:
			decode++
			grows = grows || k > 0 && of[k-1].context > 0 && g.context == of[k-1].context+g.tokens
		case g.prefill > 0 && g.decode == 0:
			prefill++
		}
	}
	if decode == 0 || !grows {
		return
	}
	x.Recording.Serving = servingPhase(prefill > 0, true)
	for k := range of {
		s := &x.Steps[k]
		switch g := &of[k]; {
		case g.decode > 0 && g.prefill == 0:
			s.Decode, s.Tokens, s.Context = int(g.tokens), g.tokens, g.context
		case g.prefill > 0 && g.decode == 0:
			s.Prefill = 1
		}
	}
}

// countAttention counts the attention of each step by the length of its queries.
func (x *Index) countAttention() []generation {
	of := make([]generation, len(x.Steps))
	x.eachAttention(func(h *model.Host, q, keys []int64) {
		k := x.StepAt(h.Start)
		switch {
		case k < 0:
		case q[2] > 1 || keys[2] <= 1:
			of[k].prefill++
		default:
			of[k].decode++
			of[k].tokens, of[k].context = q[0], q[0]*keys[2]
		}
	})
	return of
}

// eachAttention calls f for every call of attention whose shapes are recorded, with the dimensions of the queries and
// of the keys: batch, heads, tokens, size of a head.
func (x *Index) eachAttention(f func(h *model.Host, q, keys []int64)) {
	id := slices.Index(x.T.Names, scaledAttention)
	if id < 0 {
		return
	}
	parsed := map[uint32]opcost.Args{}
	for i := range x.T.Host {
		h := &x.T.Host[i]
		if h.Kind != model.Op || h.Name != model.NameID(id) {
			continue
		}
		args, seen := parsed[h.Stack]
		if !seen {
			args, _ = opcost.Parse(x.T.ArgsOf(h)) // none where the text is no list of arguments
			parsed[h.Stack] = args
		}
		if len(args) >= 2 && len(args[0].Dims) == 4 && len(args[1].Dims) == 4 {
			f(h, args[0].Dims, args[1].Dims)
		}
	}
}

// servingPhase names the phases of serving that the steps contain.
func servingPhase(prefill, decode bool) string {
	switch {
	case prefill && decode:
		return "mixed"
	case prefill:
		return "prefill"
	}
	return "decode"
}

// ServesRequests reports whether an engine names steps that serve requests; other programs that decode generate.
func (x *Index) ServesRequests() bool {
	return x.Recording.Serving != "" && strings.HasSuffix(x.StepSource, " step")
}
