package document

import "github.com/gpuprof/gpuprof"

// The kinds of document.
const (
	Run             gpuprof.DocumentKind = "run"
	Sweep           gpuprof.DocumentKind = "sweep" // several runs; earlier versions wrote a list of them
	Comparison      gpuprof.DocumentKind = "comparison"
	Gate            gpuprof.DocumentKind = "gate" // a comparison whose sides ran in one job
	Tune            gpuprof.DocumentKind = "tune"
	Claims          gpuprof.DocumentKind = "claims" // a tuning result of published claims
	Analysis        gpuprof.DocumentKind = "analysis"
	TraceComparison gpuprof.DocumentKind = "trace-comparison"
	Health          gpuprof.DocumentKind = "health"
	Diagnosis       gpuprof.DocumentKind = "diagnosis" // report of doctor on a machine
	Ranges          gpuprof.DocumentKind = "ranges"    // values that healthy devices reach
	Baseline        gpuprof.DocumentKind = "baseline"
	History         gpuprof.DocumentKind = "history" // trends and changes in a store
	Session         gpuprof.DocumentKind = "session" // an object of a store
	Class           gpuprof.DocumentKind = "class"   // common properties of a series' sessions
	Check           gpuprof.DocumentKind = "check"
	Noise           gpuprof.DocumentKind = "noise"
	Recording       gpuprof.DocumentKind = "recording" // facts about a program run by gpuprof run -- CMD
	Timeline        gpuprof.DocumentKind = "timeline"  // for ui.perfetto.dev
	GPUCheck        gpuprof.DocumentKind = "gpu-check" // summary of scripts/gpucheck
	Bisect          gpuprof.DocumentKind = "bisect"
	Memory          gpuprof.DocumentKind = "memory"  // result of analyze for memory snapshots
	Rank            gpuprof.DocumentKind = "rank"    // result of one process of a job
	Program         gpuprof.DocumentKind = "program" // result of a rank's program, with its collectives
	Fleet           gpuprof.DocumentKind = "fleet"
	Brief           gpuprof.DocumentKind = "brief" // extract of another document, for agents
)

// kind holds the properties of a kind of document.
type kind struct {
	name gpuprof.DocumentKind
	// version is the written schema version (semantic versioning). Readers reject a newer major version.
	version string
	a       string // the noun with its article: "a run"
	writer  string // "gpuprof run"
	give    string // fix: what to give instead
	reader  string // a clause: the verbs that read it
}

// PartMember is the name of the first member of a trace that was cut out of another. Its value is a model.Cut as JSON,
// with times of the same clock as the file.
const PartMember = "gpuprofPart"

// kinds lists every kind of document. The comments list the changes of its schema by version.
func kinds() []kind {
	return []kind{
		// Added in schema 1.1.0: a copy has no exposed time while it overlaps a kernel; bounds by precision and kind of
		// traffic (Run.CopiesYield). 1.2.0: kind. 1.3.0: clock of the device. 1.4.0: ids of rules as in gpuprof.Rules.
		// 1.5.0: roles of stages. 1.6.0: requests. 1.7.0: external requests over HTTP. 1.8.0: no percentiles that a late
		// sender determined (coordinated omission); checks in virtual time. 1.9.0: answer.
		{Run, "1.9.0", "a run", "gpuprof run", "a file written by gpuprof run", "which gpuprof report, compare and gate take"},
		{Sweep, "1.0.0", "a sweep", "gpuprof run", "a file written by gpuprof run", "which gpuprof report takes"},
		// Changed in schema 2.0.0: the member kind names the kind of file; the way of measuring, formerly kind, is in the
		// member sides. 2.1.0: ids of rules as in a run. 2.2.0: answer, as in the latest version of most kinds.
		{Comparison, "2.2.0", "a comparison", "gpuprof compare or gate", "a file written by gpuprof compare or gate", "which gpuprof report takes"},
		{Gate, "2.2.0", "a comparison", "gpuprof gate", "a file written by gpuprof gate", "which gpuprof report takes"},
		// Added in schema 2.1.0: ids of rules as in a run. 2.2.0: goal latency with its rate. 2.3.0: latencies of callers,
		// and the driver. 2.4.0: delays of sending requests. 2.5.0: the user's own program, in tune and claims. Tune
		// 2.8.0: settings switched within one process. Tune 2.9.0, claims 2.6.0: runs that a limit stopped, energy.
		{Tune, "2.9.0", "a tuning result", "gpuprof tune", "the file that gpuprof tune left, or start again with another -o FILE", "which gpuprof report and tune --resume take"},
		{Claims, "2.6.0", "a test of claims", "gpuprof tune --claims", "the file that gpuprof tune --claims left", "which gpuprof report and tune --claims --resume take"},
		// Added in schema 2.1.0: kind; "pytorch" (formerly "knob") is the PyTorch line to change; fixes of warnings. 2.2.0:
		// answer. 2.3.0: the measurement behind the reachable rate of a roofline; causes that occur in some steps only.
		{Analysis, "2.3.0", "an analysis", "gpuprof analyze", "a file written by gpuprof analyze -o FILE.json", "which gpuprof report, compare and gate take"},
		// Added in schema 2.3.0: times of causes that occur in some steps only.
		{TraceComparison, "2.3.0", "a comparison of traces", "gpuprof analyze --compare", "a file written by gpuprof analyze --compare -o FILE.json", "which gpuprof report takes"},
		// Added in schema 1.2.0: second best value of several rounds. 1.3.0: node, time and XIDs. 1.4.0: links between
		// GPUs. 1.5.0: sources of faults and their answers, including XIDs (formerly condition.fault); PCI addresses;
		// verdict "not checked".
		{Health, "1.6.0", "a health report", "gpuprof doctor --bench", "what gpuprof doctor --bench --format json prints", "which gpuprof report takes"},
		{Diagnosis, "1.1.0", "a diagnosis", "gpuprof doctor", "what gpuprof doctor --format json prints", "which gpuprof report takes"},
		{Ranges, "1.0.0", "a table of ranges", "hand for gpuprof", "the file that came with this gpuprof", "which gpuprof doctor --bench takes"},
		// Added in schema 1.1.0: all digits of exact values (1.0.0 rounded). 1.2.0: rate of requests. 1.3.0: metrics of
		// which neither direction is better.
		{Baseline, "1.3.0", "a stored baseline", "gpuprof history baseline add", "the file as it was stored, or remove it and add its runs again", "which stands for the old side only (gpuprof gate BASELINE NEW, gate auto NEW, run --baseline)"},
		// Added in schema 1.1.0 of both kinds: subject, author and web page of a commit; answer of a history.
		{History, "1.1.0", "a history", "gpuprof history", "a file written by gpuprof history -o FILE.json", "which gpuprof report takes"},
		{Session, "1.1.0", "a stored session", "gpuprof history add", "an object of the store, or add its result again", "which gpuprof history reads from its store"},
		{Class, "1.0.0", "a class of sessions", "gpuprof history add", "an object of the store", "which gpuprof history reads from its store"},
		// Added in schema 1.2.0: workload, preset and device. 1.3.0: checks in virtual time.
		{Check, "1.4.0", "a check", "gpuprof run --check", "what gpuprof run --check --format json prints", "which gpuprof report takes"},
		{Noise, "1.2.0", "a measurement of noise", "gpuprof gate --aa", "what gpuprof gate --aa keeps", "which gpuprof gate --plan reads from its cache"},
		// Added in schema 1.2.0: warnings, each with its fix (formerly notes). 1.5.0: answer.
		{Recording, "1.5.0", "a recording", "gpuprof run -- COMMAND", "the telemetry.json of gpuprof run -- COMMAND", "which gpuprof analyze reads beside its traces"},
		{Timeline, "2.1.0", "a timeline", "gpuprof report", "a file written by gpuprof report -o FILE.perfetto.json", "which gpuprof analyze and ui.perfetto.dev take"},
		{GPUCheck, "1.0.0", "a summary of gpu-check", "gpu-check", "its summary.json", "which gpuprof tune reads from a folder of baselines"},
		// Added in schema 1.2.0: least reserved memory under other settings, which values are exact, ends of steps. 1.3.0:
		// answer. 1.4.0: growth of the tensors over the recording, and counts of the driver's calls.
		{Memory, "1.4.0", "an analysis of memory", "gpuprof analyze", "a file written by gpuprof analyze SNAPSHOT -o FILE.json", "which gpuprof report takes"},
		{Bisect, "1.1.0", "a bisection", "gpuprof bisect", "a file written by gpuprof bisect -o FILE.json", "which gpuprof report takes"},
		{Rank, "1.0.0", "an object of a rank", "gpuprof run or doctor --bench -o FOLDER/", "an object of the folder", "which gpuprof fleet reads from its folder"},
		{Program, "1.0.0", "a rank's program", "gpuprof run -o FOLDER/ -- COMMAND", "an object of the folder", "which gpuprof fleet reads from its folder"},
		// Added in schema 1.1.0: programs, stragglers. 1.2.0: reached rates, for doctor --bench --against. 1.3.0: devices
		// of a machine.
		{Fleet, "1.4.0", "a fleet report", "gpuprof fleet", "what gpuprof fleet --format json prints", "which gpuprof report takes"},
		{Brief, "1.0.0", "a brief document", "gpuprof --format brief-json", "the whole document (--format json)", "which coding agents read"},
	}
}

// kindOf returns the kind with a name; without a version if it is unknown.
func kindOf(name gpuprof.DocumentKind) kind {
	for _, k := range kinds() {
		if k.name == name {
			return k
		}
	}
	return kind{name: name}
}

// Version returns the schema version that this gpuprof writes; empty for unknown kinds.
func Version(name gpuprof.DocumentKind) string { return kindOf(name).version }

// NewHead returns the head of a new document.
func NewHead(name gpuprof.DocumentKind, by gpuprof.Tool) gpuprof.Head {
	return gpuprof.Head{Kind: name, Version: Version(name), Tool: by}
}

// A returns the kind with its article: "a run".
func A(name gpuprof.DocumentKind) string { return kindOf(name).a }

// Is returns a clause with the kind of a file and the command that reads it: "it is a comparison, which gpuprof report
// takes".
func Is(name gpuprof.DocumentKind) string {
	k := kindOf(name)
	return "it is " + k.a + ", " + k.reader
}
