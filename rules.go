package gpuprof

// The ids of the rules, as in Finding.Rule. A cause has the same id for runs of the workloads and for traces.
const (
	RuleMeasured          = "measured"
	RuleBaseline          = "against-baseline"
	RuleItem              = "item"
	RuleExplicitSync      = "explicit-sync"
	RuleHiddenSync        = "hidden-sync"
	RuleResetStats        = "reset-stats"
	RuleAllocatorChurn    = "allocator-churn"
	RuleBlockingCopy      = "blocking-copy"
	RulePageableH2D       = "pageable-h2d"
	RulePinEveryBatch     = "pin-every-batch"
	RuleExposedCopy       = "exposed-copy"
	RuleDataloaderStall   = "dataloader-stall"
	RuleCollateBound      = "collate-bound"
	RuleLaunchBound       = "launch-bound"
	RuleHostBound         = "host-bound"
	RuleDataShape         = "data-dependent-shape"
	RuleDDPBuffers        = "ddp-buffers"
	RuleSmallGrid         = "small-grid"
	RuleDeterministic     = "deterministic"
	RuleDeterministicFill = "deterministic-fill"
	RuleNoTF32            = "no-tf32"
	RuleNoAMP             = "no-amp"
	RuleTensorCores       = "tensor-cores"
	RuleOffPeakGEMM       = "off-peak-gemm"
	RuleAttentionOffPeak  = "attention-off-peak"
	RuleMemoryBoundChain  = "memory-bound-chain"
	RuleSmallCollective   = "small-collective"
	RuleFarFromRoofline   = "far-from-roofline"
	RuleUnfusedAttention  = "unfused-attention"
	RuleElementwiseChain  = "elementwise-chain"
	RuleExposedComm       = "exposed-comm"
	RuleStraggler         = "straggler"
	RuleStreamWait        = "stream-wait"
	RuleZeroGrad          = "zero-grad"
	RuleFewThreads        = "few-threads"
	RuleSmallBatch        = "small-batch"
	RuleThrottled         = "throttled"
	RuleNoise             = "noise"
	RuleTraceQuality      = "trace-quality"
	RuleNotSteady         = "not-steady"
	RuleOutsideOperators  = "outside-operators"
	RuleCheckpointWrite   = "checkpoint-write"
	RuleLogging           = "logging"
	RuleStarvedMachine    = "starved-machine"
	RuleRecomputation     = "recomputation"
	RuleFloat64           = "float64-parameters"
	RuleTooManyThreads    = "too-many-threads"
	RuleAnomalyMode       = "anomaly-mode"
	RuleOptimizerLoop     = "optimizer-loop"
	RuleHostOperator      = "host-operator"
	RuleOneKernel         = "one-kernel"
	RulePrefillInDecode   = "prefill-in-decode"
	RuleEagerDecode       = "eager-decode"
	RuleSchedulerGap      = "scheduler-gap"
	RuleDecodeBytes       = "decode-bytes"
	RuleDecodeAllReduce   = "decode-allreduce"
	RuleExpertImbalance   = "expert-imbalance"
	RulePipelineBubble    = "pipeline-bubble"
	RuleRecompilation     = "recompilation"
	RuleUnifiedMemory     = "unified-memory"

	RuleOutOfMemory        = "oom-cause"
	RuleLeak               = "leak"
	RuleGradientHeld       = "gradient-held"
	RulePeakActivation     = "peak-activation"
	RuleLargeTemporary     = "large-temporary"
	RuleOptimizerState     = "optimizer-state"
	RuleOptimizerTemporary = "optimizer-temporary"
	RuleFragmentation      = "fragmentation"
	RuleCachedUnused       = "cached-unused"
	RuleEmptyCache         = "empty-cache-churn"
	RuleSettingInert       = "setting-inert"
	RuleAllocRetry         = "alloc-retry"
	RuleRounding           = "rounding"
	RuleWorkspace          = "workspace"
	RulePendingFree        = "pending-free"
	RulePrivatePool        = "private-pool"
	RuleGradUnused         = "grad-unused"
	RuleSoftmaxKept        = "softmax-kept"
	RuleAutocastKept       = "autocast-kept"
)

// Rule is a kind of finding.
type Rule struct {
	ID           string
	Runs, Traces bool   // the inputs in which it is looked for
	Memory       bool   // looked for in memory snapshots
	Cause        string // cause of the longer step or higher peak; unique to the rule
	Was          []FormerRule
}

// FormerRule is an id that files of earlier versions use for a rule.
type FormerRule struct {
	ID string
	To string // the setting that the finding suggests; empty for any
}

// Rules lists the rules for runs, traces and memory snapshots.
func Rules() []Rule {
	both := func(id, cause string, was ...FormerRule) Rule {
		return Rule{ID: id, Runs: true, Traces: true, Cause: cause, Was: was}
	}
	runs := func(id, cause string, was ...FormerRule) Rule {
		return Rule{ID: id, Runs: true, Cause: cause, Was: was}
	}
	memory := func(id, cause string) Rule { return Rule{ID: id, Memory: true, Cause: cause} }
	traces := func(id, cause string) Rule { return Rule{ID: id, Traces: true, Cause: cause} }
	once := func(id string) FormerRule { return FormerRule{ID: id} }
	return []Rule{
		both(RuleItem, "single values are read from the device", once("item-reads")),
		both(RuleExplicitSync, "the program waits for the device by a call of its own", once("sync")),
		both(RuleBlockingCopy, "the host thread waits until a copy is done", once("blocking-copies")),
		both(RulePageableH2D, "copies to the device read pageable memory", once("pageable-copies")),
		both(RuleExposedCopy, "copies run while no kernel does", once("transfer-share")),
		both(RuleDataloaderStall, "the step waits for the data loader", once("starved-device")),
		both(RuleLaunchBound, "the host starts kernels more slowly than the device runs them"),
		both(RuleAllocatorChurn, "device memory is requested from the driver, or returned to it, within steps", once("pool-trim")),
		both(RuleDeterministic, "sums in a fixed order take longer", once("deterministic-cost")),
		both(RuleDeterministicFill, "memory is filled before it is written"),
		both(RuleNoTF32, "products of float32 do not use the tensor cores", FormerRule{"precision-headroom", "tf32"}),
		both(RuleNoAMP, "products are computed in float32 and not in 16 bits", once("precision-headroom")),
		runs(RuleMeasured, "a sweep measured a faster setting"),
		runs(RuleBaseline, "the baseline had another setting, environment or code"),
		runs(RuleResetStats, "the counters of memory are reset after a wait"),
		runs(RulePinEveryBatch, "host memory is pinned again for every batch"),
		runs(RuleCollateBound, "a batch is put together slowly"),
		runs(RuleFarFromRoofline, "a stage is far above its roofline bound", once("far-from-floor")),
		runs(RuleZeroGrad, "gradients are filled with zeros, and the first ones added to them"),
		runs(RuleFewThreads, "kernels of the host use some of the CPUs only"),
		runs(RuleSmallBatch, "the fixed cost of a step serves a small batch"),
		runs(RuleThrottled, "the device lowered its clocks"),
		runs(RuleNoise, "samples of the run differ too much"),
		traces(RuleHiddenSync, "an operation waits for the device inside"),
		traces(RuleDataShape, "the shape of a result depends on data"),
		traces(RuleHostBound, "the program between launches takes longer than the kernels"),
		traces(RuleDDPBuffers, "buffers of the model are broadcast in every step"),
		traces(RuleSmallGrid, "kernels use a part of the device only"),
		traces(RuleTensorCores, "products in 16 bits do not use the tensor cores"),
		traces(RuleAttentionOffPeak, "attention runs by a kernel that is not the quickest for the device"),
		traces(RuleMemoryBoundChain, "operators that the memory bounds write and read what one kernel would keep"),
		traces(RuleSmallCollective, "small collectives run one after another"),
		traces(RuleOffPeakGEMM, "sizes of matrix products are not aligned to the tensor cores"),
		traces(RuleUnfusedAttention, "attention is computed an operation at a time"),
		traces(RuleElementwiseChain, "element-wise operations run as a kernel each"),
		traces(RuleExposedComm, "collectives run while no kernel does"),
		traces(RuleStraggler, "the ranks of a job wait for one of them"),
		traces(RuleStreamWait, "work that is launched does not begin"),
		traces(RuleOutsideOperators, "the program computes or waits outside any operator"),
		traces(RuleCheckpointWrite, "the step waits until a checkpoint is written"),
		traces(RuleLogging, "the step waits until its log is written"),
		traces(RuleStarvedMachine, "other programs or threads have the CPUs that the host thread needs"),
		traces(RuleRecomputation, "activations are computed twice"),
		traces(RuleFloat64, "the parameters are float64"),
		traces(RuleTooManyThreads, "PyTorch has more threads than the program has CPUs"),
		traces(RuleAnomalyMode, "anomaly detection is on"),
		traces(RuleOptimizerLoop, "the optimizer updates one parameter at a time"),
		traces(RuleTraceQuality, "the trace is incomplete"),
		traces(RuleNotSteady, "most of the recording is not the program's steady work"),
		traces(RulePrefillInDecode, "steps with prefill lengthen the decode of running requests"),
		traces(RuleDecodeBytes, "decode reads all weights for few tokens"),
		traces(RuleDecodeAllReduce, "decode sums activations across ranks in every layer"),
		traces(RuleExpertImbalance, "the experts of one rank get more tokens than the others"),
		traces(RulePipelineBubble, "a stage of the pipeline waits for another one"),
		traces(RuleEagerDecode, "decode launches its kernels one at a time"),
		traces(RuleSchedulerGap, "the device is idle between steps of an engine"),
		traces(RuleUnifiedMemory, "the driver moves pages of unified memory while kernels need them"),
		traces(RuleRecompilation, "the program compiles after its first step"),
		traces(RuleOneKernel, "one kernel of the program takes most of the device's time"),
		traces(RuleHostOperator, "one operator or range takes most of the host's time"),
		memory(RuleOutOfMemory, "a request for device memory failed"),
		{ID: RuleLeak, Runs: true, Memory: true, Cause: "the program holds what earlier steps recorded for their backward"},
		memory(RuleGradientHeld, "gradients of the step before are held during the forward pass"),
		memory(RuleGradUnused, "a forward pass keeps its results for a backward pass that does not come"),
		memory(RuleSoftmaxKept, "the result of a softmax is kept for the backward pass"),
		memory(RuleAutocastKept, "casts by autocast are kept"),
		memory(RulePeakActivation, "activations make most of the peak"),
		memory(RuleLargeTemporary, "short-lived blocks make the peak"),
		memory(RuleOptimizerState, "the state of the optimizer takes a large part of the peak"),
		memory(RuleOptimizerTemporary, "temporaries of the optimizer make the peak"),
		{ID: RuleFragmentation, Runs: true, Memory: true, Cause: "the allocator reserves more than live tensors ever take"},
		memory(RuleCachedUnused, "memory stays reserved that a step does not use"),
		memory(RuleEmptyCache, "the cache of the allocator is emptied in steps"),
		memory(RuleSettingInert, "a setting of the allocator changes nothing"),
		memory(RuleAllocRetry, "requests wait until cached memory is returned to the driver"),
		memory(RuleRounding, "the allocator's sizes of blocks are larger than the tensors"),
		memory(RuleWorkspace, "libraries hold scratch memory at the peak"),
		memory(RulePendingFree, "freed memory waits for work of another stream"),
		memory(RulePrivatePool, "memory is free in private pools and serves no other"),
	}
}

// RuleNow returns the current id of a rule, given its id in any version; an unknown id unchanged. to is the setting
// that the finding suggests.
func RuleNow(id, to string) string {
	for _, r := range Rules() {
		for _, was := range r.Was {
			if was.ID == id && (was.To == "" || was.To == to) {
				return r.ID
			}
		}
	}
	return id
}

// RenameRule replaces a former rule id by the current one, and reports whether the id changed.
func (f *Finding) RenameRule() (changed bool) {
	was := f.Rule
	f.Rule = RuleNow(was, f.To)
	return f.Rule != was
}
