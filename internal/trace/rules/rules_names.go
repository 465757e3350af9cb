package rules

import (
	"strings"

	"github.com/gpuprof/gpuprof/internal/lazyregexp"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// nameFacts holds the facts that rules parse from an event name.
type nameFacts struct {
	matmul matmul
	arch   int // see parseArch
	// what is the set of the marks of the name.
	what nameMark
}

// nameMark is a set of facts about a name, one bit each.
type nameMark uint32

const (
	markLoader    nameMark = 1 << iota // fetches the next batch
	markSync                           // API: waits for a device
	markItem                           // reads a scalar
	markShape                          // operator with data-dependent shape
	markAlloc                          // API: takes device memory from the driver
	markFree                           // API: releases device memory
	markPool                           // API: takes device memory from a pool
	markSortUser                       // operator that, in deterministic mode, sorts its indices to add in a fixed order
	markEmbedding                      // operator of embedding gradients, which always sorts
	markEmpty                          // operator that allocates without writing
	markSort                           // kernel that sorts
	markFill                           // kernel that writes one value
	markLaunch                         // API: starts work on a device
	markGraph                          // API: starts a recorded graph
	markKernel                         // API: starts one kernel
	markCapture                        // API: begins or ends the capture of a graph
	markBlocks                         // API: copies, and returns after the copy
)

// Patterns of names. apiSuffix matches the version or stream suffix that some profilers append to function names; the
// patterns of calls apply without it.
var (
	apiSuffix = lazyregexp.New(`(_v\d+|_ptsz|_ptds|_spt)+$`)
	syncCall  = lazyregexp.New(`^(cuda|cu|hip)(Stream|Device|Event|Ctx|Thread)Synchronize$`)
	allocCall = lazyregexp.New(`^(cudaMalloc|hipMalloc|cuMemAlloc|cuMemCreate|hipExtMallocWithFlags)(Pitch|3D|Managed|Array)?$`)
	poolCall  = lazyregexp.New(`^(cudaMalloc|hipMalloc|cuMemAlloc)(FromPool)?Async$`)
	freeCall  = lazyregexp.New(`^(cudaFree|hipFree|cuMemFree|cuMemRelease)(Array)?$`)
	// Kernel launches of both vendors and their variants, copies and fills; graphs are markGraph as well.
	launchCall = lazyregexp.New(`^(cuda|cu|hip).*(LaunchKernel|LaunchCooperativeKernel|LaunchGrid|GraphLaunch|Memcpy|Memset)`)
	kernelCall = lazyregexp.New(`^(cuda|cu|hip).*(LaunchKernel|LaunchCooperativeKernel)(Ex|ExC)?$`)

	// Synchronous copies. PyTorch for ROCm uses hipMemcpyWithStream for all copies that are not non_blocking.
	blockingCall = lazyregexp.New(`^(cuda|hip)Memcpy(WithStream|2D|3D|ToSymbol|FromSymbol|DtoH|HtoD|DtoD)?$|^cuMemcpy(DtoH|HtoD|DtoD|2D|3D)?$`)

	loaderRange = lazyregexp.New(`^enumerate\(Data(Loader|Pipe)\)#`)
	shapeOp     = lazyregexp.New(`^aten::(nonzero|nonzero_numpy|_?unique\w*|masked_select\w*)$`)
	sortUser    = lazyregexp.New(`^aten::(_?index_put|index_add|scatter_add|scatter_reduce|_index_put_impl)`)
	emptyOp     = lazyregexp.New(`^aten::_?(empty|new_empty|resize)([._]|$)`)
	sortKernel  = lazyregexp.New(`radix_?sort|bitonic_?sort|merge_?sort|block_?sort|segmented_?sort|sort_?key_?value|sort_?pairs`)
	fillKernel  = lazyregexp.New(`FillFunctor|fill_kernel|fill_empty`)
)

// describeRuleNames parses every name once: a trace has millions of events, but only thousands of names.
func describeRuleNames(t *model.Trace) []nameFacts {
	out := make([]nameFacts, len(t.Names))
	for i, s := range t.Names {
		out[i] = nameFacts{parseMatmul(s), parseArch(s), parseMarks(s)}
	}
	return out
}

func parseMarks(s string) nameMark {
	switch {
	case strings.HasPrefix(s, "enumerate("):
		if loaderRange.MatchString(s) {
			return markLoader
		}
		return 0
	case strings.HasPrefix(s, "cu") || strings.HasPrefix(s, "hip"):
		if m := parseAPIMarks(apiSuffix.ReplaceAllString(s, "")); m != 0 {
			return m
		}
	case strings.HasPrefix(s, "aten::"):
		return parseOpMarks(s)
	}
	var m nameMark
	if sortKernel.MatchString(strings.ToLower(s)) {
		m |= markSort
	}
	if fillKernel.MatchString(s) {
		m |= markFill
	}
	if strings.Contains(s, "embedding_dense_backward") || strings.Contains(s, "EmbeddingBackward") {
		m |= markEmbedding
	}
	return m
}

func parseAPIMarks(s string) nameMark {
	switch {
	case syncCall.MatchString(s):
		return markSync
	case allocCall.MatchString(s):
		return markAlloc
	case poolCall.MatchString(s):
		return markPool
	case freeCall.MatchString(s):
		return markFree
	case strings.Contains(s, "GraphLaunch"):
		return markLaunch | markGraph
	case strings.Contains(s, "StreamBeginCapture") || strings.Contains(s, "StreamEndCapture"):
		return markCapture
	case kernelCall.MatchString(s):
		return markLaunch | markKernel
	case blockingCall.MatchString(s):
		return markLaunch | markBlocks
	case launchCall.MatchString(s):
		return markLaunch
	}
	return 0
}

func parseOpMarks(s string) nameMark {
	var m nameMark
	switch {
	case s == "aten::_local_scalar_dense":
		m |= markItem
	case shapeOp.MatchString(s):
		m |= markShape
	case emptyOp.MatchString(s):
		m |= markEmpty
	case sortUser.MatchString(s):
		m |= markSortUser
	}
	if strings.Contains(s, "embedding_dense_backward") {
		m |= markEmbedding
	}
	return m
}

func (c *ruleContext) nameHasMark(id model.NameID, m nameMark) bool {
	return int(id) < len(c.names) && c.names[id].what&m != 0
}

// findMarkAround returns the innermost event with the mark m that encloses or equals host event h; -1 none.
func (c *ruleContext) findMarkAround(h int32, m nameMark) int32 {
	for ; h >= 0; h = c.x.Parent(h) {
		if c.nameHasMark(c.t.Host[h].Name, m) {
			return h
		}
	}
	return -1
}
