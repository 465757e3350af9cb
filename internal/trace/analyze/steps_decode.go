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

// stepTokens match the counts of tokens in the names of serving steps, the most exact form first. The first two forms
// are detailed names of vLLM and SGLang with sums of queries and of context. The others count tokens, or requests, each
// of which decodes one token.
var stepTokens = []*lazyregexp.Regexp{
	lazyregexp.New(`_generation_\d+\(sq(\d+)sk(\d+)`),
	lazyregexp.New(`\bg_sq=(\d+).*?\bg_sk=(\d+)`),
	lazyregexp.New(`_generation_\d+\((\d+)[)_]`),
	lazyregexp.New(`^decode\[.*?\btok=(\d+)`),
	lazyregexp.New(`^step\[DECODE bs=(\d+)`),
	lazyregexp.New(`(\d+) gen reqs`),
	lazyregexp.New(`^execute_new_0_cached_(\d+)`),
}

// parseTokens reads from a step name the tokens that a decode step computes and the cached tokens that it reads; 0
// unknown.
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
			n, _ := strconv.ParseInt(m[i], 10, 64) // 0, unknown, if the number is too large
			return n
		}
		return count(1), count(2)
	}
	return 0, 0
}

// attentionCalls counts the attention calls of a step by phase.
type attentionCalls struct {
	decode, prefill int
	tokens, context int64 // in the last decode call: tokens computed and keys read, over all sequences
}

// findSamplingSteps ends each step where the operator that chooses a token (argmax or multinomial) ends. It applies to
// programs that generate text: they call attention with one query for each sequence, or transformers' generate.
func (x *Index) findSamplingSteps(launches map[uint32]int) bool {
	if x.Recording.Engine != huggingFace && !x.hasSingleQueries() {
		return false
	}
	var best *rangeGroup
	for _, g := range x.groupRanges(func(h *model.Host) bool {
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
	x.addStepsBetweenEnds(best, func(k int) string { return fmt.Sprintf("token %d", k+1) })
	return true
}

// hasSingleQueries reports whether an attention call with one query for each sequence was recorded.
func (x *Index) hasSingleQueries() (has bool) {
	x.eachAttention(func(_ *model.Host, q, keys []int64) { has = has || q[2] == 1 && keys[2] > 1 })
	return has
}

// AttentionName is PyTorch's operator for attention, which calls one of several implementations.
const AttentionName = "aten::scaled_dot_product_attention"

// classifyGeneration finds which steps are prefill and which decode in a program that generates text without a serving
// engine. A step with one attention query per sequence decodes. Other programs have such steps too, so the number of
// keys must grow by one token between two steps, or names must show transformers' generate. It needs recorded shapes.
func (x *Index) classifyGeneration() {
	if x.Recording.Serving != "" || x.Recording.Program != PyTorch || len(x.Steps) == 0 || x.Trains() {
		return
	}
	calls := x.countAttention()
	prefill, decode, grows := 0, 0, x.Recording.Engine == huggingFace
	for k := range calls {
		switch g := &calls[k]; {
		case g.decode > 0 && g.prefill == 0:
			decode++
			grows = grows || k > 0 && calls[k-1].context > 0 && g.context == calls[k-1].context+g.tokens
		case g.prefill > 0 && g.decode == 0:
			prefill++
		}
	}
	if decode == 0 || !grows {
		return
	}
	x.Recording.Serving = servingPhase(prefill > 0, true)
	for k := range calls {
		s := &x.Steps[k]
		switch g := &calls[k]; {
		case g.decode > 0 && g.prefill == 0:
			s.Decode, s.Tokens, s.Context = int(g.tokens), g.tokens, g.context
		case g.prefill > 0 && g.decode == 0:
			s.Prefill = 1
		}
	}
}

func (x *Index) countAttention() []attentionCalls {
	calls := make([]attentionCalls, len(x.Steps))
	x.eachAttention(func(h *model.Host, q, keys []int64) {
		k := x.StepAt(h.Start)
		switch {
		case k < 0:
		case q[2] > 1 || keys[2] <= 1:
			calls[k].prefill++
		default:
			calls[k].decode++
			calls[k].tokens, calls[k].context = q[0], q[0]*keys[2]
		}
	})
	return calls
}

// eachAttention calls f for each attention call with recorded shapes of queries and keys (batch, heads, tokens, head
// size).
func (x *Index) eachAttention(f func(h *model.Host, q, keys []int64)) {
	id := slices.Index(x.T.Names, AttentionName)
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
			args, _ = opcost.Parse(x.T.ArgsOf(h)) // no arguments if the text is no list of arguments
			parsed[h.Stack] = args
		}
		if len(args) >= 2 && len(args[0].Dims) == 4 && len(args[1].Dims) == 4 {
			f(h, args[0].Dims, args[1].Dims)
		}
	}
}

func servingPhase(prefill, decode bool) string {
	switch {
	case prefill && decode:
		return "mixed"
	case prefill:
		return "prefill"
	}
	return "decode"
}

// ServesRequests reports whether the steps are named by an engine that serves requests.
func (x *Index) ServesRequests() bool {
	return x.Recording.Serving != "" && strings.HasSuffix(x.StepSource, " step")
}
