package fleet

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Verdict is the outcome of a job.
type Verdict string

// The verdicts.
const (
	Even   Verdict = "even"    // no rank is off
	Waited Verdict = "waiting" // the others wait for a rank: a finding without failure
	Uneven Verdict = "uneven"  // at least one rank is off
	TooFew Verdict = "too-few" // no siblings to compare with
	Broken Verdict = "broken"  // a rank failed or is missing
)

// ExitCode returns the exit code of gpuprof fleet.
func (v Verdict) ExitCode() int {
	switch v {
	case Even, Waited:
		return 0
	case Uneven:
		return 1
	case TooFew:
		return 3
	}
	return 4
}

// Off is a figure of a rank that is worse than its siblings'.
type Off struct {
	Rank     int            `json:"rank"`
	Node     string         `json:"node,omitempty"`
	Device   string         `json:"device,omitempty"`
	Metric   string         `json:"metric"`
	Unit     string         `json:"unit"`
	Value    gpuprof.Number `json:"value"`
	Worse    gpuprof.Number `json:"worse_by"` // as a share of the siblings' median
	P        gpuprof.Number `json:"p"`        // probability of such a figure by chance; 0 for a fault that the GPU reports
	Siblings int            `json:"siblings"` // 0 for a fault that the GPU reports, and for a comparison with a range
	Cause    string         `json:"cause"`
	Evidence bool           `json:"evidence"` // a measured difference explains the cause
	Fix      string         `json:"fix"`

	of  int  // index of the GPU in the report
	own bool // reported by the GPU itself
}

// Report is the document of gpuprof fleet, and of gpuprof run --devices.
type Report struct {
	gpuprof.Head
	Verdict  Verdict  `json:"verdict"`
	ExitCode int      `json:"exit_code"`
	Reason   string   `json:"reason"` // one sentence
	World    int      `json:"world"`  // ranks of the job
	Launcher string   `json:"launcher"`
	Nodes    []string `json:"nodes"`
	GPUs     int      `json:"gpus"` // GPUs with a health report
	Workload string   `json:"workload,omitempty"`
	Command  []string `json:"command,omitempty"` // command line of the ranks' program
	Metrics  []Metric `json:"metrics"`
	// Reference holds the norms of the fleet's GPUs, for judging another GPU.
	Reference []Norm   `json:"reference,omitempty"`
	Off       []Off    `json:"off"` // the worst first
	Missing   []int    `json:"missing_ranks"`
	Failed    []int    `json:"failed_ranks"`
	Problems  []string `json:"problems"` // unusable objects, with the reason
	Notes     []string `json:"notes"`

	Recordings []Recording `json:"recordings,omitempty"` // of the ranks' program
	Waiting    *Waiting    `json:"waiting,omitempty"`    // set if at least two ranks communicate
	Devices    *Devices    `json:"devices,omitempty"`    // set by run --devices: each device of the machine is a rank

	// Top is the requested number of rows per table, the worst first; 0 for as many as fit.
	Top int `json:"-"`

	compared int     // the largest number of siblings of any figure
	few      string  // sentence on the worst figure with too few siblings
	fewBy    float64 // share by which that figure is worse
	unsure   int     // number of worse figures that are too uncertain to be off
	judged   bool    // a health report has its own verdict
	// unchecked counts the GPUs that were not checked for faults. No source found a fault on them, and no source that
	// can rule faults out answered.
	unchecked int
	nodeOf    map[int]string      // node by rank
	kinds     map[string][]string // GPU models by node
}

// Options configures how Merge judges a job.
type Options struct {
	AllowMismatch []string // fields that may differ between ranks
	AllowMissing  bool     // a missing rank does not fail the job
	// MostWaiting is the largest share of the step that a straggler may cost; a larger one makes the job uneven. 0 is
	// no limit.
	MostWaiting float64
	Again       []*Job // further measurements: only figures off in all of them stay off
	Top         int    // requested rows per table; 0 for as many as fit
	Tool        gpuprof.Tool
}

// Merge judges the objects of a job. The error is ErrInput if no object can be read.
func Merge(job *Job, o Options) (*Report, error) {
	for _, j := range append([]*Job{job}, o.Again...) {
		if err := j.checkNotEmpty(); err != nil {
			return nil, err
		}
	}
	if err := checkRepeats(job, o.Again); err != nil {
		return nil, err
	}
	r := newReport(job, o)
	for _, obj := range job.Objects {
		r.nodeOf[obj.Rank] = obj.Node
		if obj.Node != "" {
			r.Nodes = append(r.Nodes, obj.Node)
		}
		if obj.Of != document.Run && obj.Of != document.Health && obj.Of != document.Program {
			r.leaveOut(obj, fmt.Sprintf("reading %s: it holds %q, which this gpuprof does not merge; update gpuprof", obj.name, obj.Of))
		}
	}
	slices.Sort(r.Nodes)
	r.Nodes = slices.Compact(r.Nodes)
	r.judgeRuns(job, o)
	r.judgeHealth(job, o)
	r.addPrograms(job)
	r.setVerdict(o)
	document.CleanStrings(r)
	return r, nil
}

func newReport(job *Job, o Options) *Report {
	return &Report{Head: document.NewHead(document.Fleet, o.Tool), World: job.World, Top: o.Top, Launcher: job.Objects[0].Launcher, Nodes: []string{},
		Metrics: []Metric{}, Off: []Off{}, Missing: append([]int{}, job.Missing...), Failed: []int{}, Problems: append([]string{}, job.Problems...), Notes: append([]string{}, job.Notes...),
		nodeOf: map[int]string{}, kinds: map[string][]string{}}
}

func (j *Job) checkNotEmpty() error {
	if len(j.Objects) > 0 {
		return nil
	}
	why, fix := "it holds no object of a rank", "give the folder that every rank wrote to with -o FOLDER/"
	if len(j.Problems) > 0 {
		why = j.Problems[0]
	}
	if len(j.Elsewhere) > 0 {
		why, fix = j.suggestFolder()
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "merging %s: %s", j.where, why).WithFix("%s", fix)
}

// suggestFolder states that other folders have the objects, and names them.
func (j *Job) suggestFolder() (why, fix string) {
	const most = 3
	var folders []string
	for _, folder := range j.Elsewhere[:min(len(j.Elsewhere), most)] {
		folders = append(folders, joinFolder(j.where, folder))
	}
	text := strings.Join(folders, ", ")
	if more := len(j.Elsewhere) - most; more > 0 {
		text += fmt.Sprintf(" or %d more", more)
	}
	switch {
	case j.Elsewhere[0] == Above:
		return "it is the folder of one kind of objects, inside that of the job", "give the folder of the job, " + joinFolder(j.where, Above)
	case len(folders) == 1:
		return "it holds no object of a rank itself, but a folder in it does", "give the folder of the job, " + text
	}
	return fmt.Sprintf("it holds no object of a rank itself, but %d folders in it do", len(j.Elsewhere)), "give the folder of one job: " + text
}

func joinFolder(where, folder string) string {
	if scheme, rest, ok := strings.Cut(where, "://"); ok {
		return scheme + "://" + path.Join(rest, folder)
	}
	return filepath.Join(where, folder)
}

func (j *Job) objectsOf(kind gpuprof.DocumentKind) []*Object {
	var out []*Object
	for _, o := range j.Objects {
		if o.Of == kind {
			out = append(out, o)
		}
	}
	return out
}

// leaveOut records why an object, or a part of one, is not used, and marks its rank as failed.
func (r *Report) leaveOut(o *Object, why string) {
	r.Problems = append(r.Problems, why)
	if !slices.Contains(r.Failed, o.Rank) {
		r.Failed = append(r.Failed, o.Rank)
	}
}

func (r *Report) setVerdict(o Options) {
	slices.SortStableFunc(r.Off, func(a, b Off) int { return cmp.Compare(b.Worse, a.Worse) })
	slices.Sort(r.Failed)
	off := r.ranksOff()
	switch unused := max(len(r.Failed), len(r.Problems)); {
	case len(r.Missing) > 0 && !o.AllowMissing:
		what := "no object"
		if len(r.Problems) > 0 { // an incomplete object may belong to any rank
			what = "no object that can be used"
		}
		r.Verdict, r.Reason = Broken, fmt.Sprintf("%d of %d ranks left %s: %s", len(r.Missing), r.World, what, RanksText(r.Missing))
	case unused > 0:
		r.Verdict, r.Reason = Broken, unusedText(unused, len(r.Failed))
	case len(off) > 0:
		r.Verdict, r.Reason = Uneven, fmt.Sprintf("%d of %d ranks slower than their siblings or faulty: %s", len(off), r.World, RanksText(off))
	case r.waitingReason() != "":
		r.Verdict, r.Reason = Waited, r.waitingReason()
		if s := r.Waiting.Stragglers[0]; o.MostWaiting > 0 && float64(s.Share) > o.MostWaiting {
			r.Verdict = Uneven
		}
	case r.few != "":
		r.Verdict, r.Reason = TooFew, r.few
	case r.Waiting != nil && r.Waiting.Unclaimed != "" && r.compared < 2 && !r.judged:
		r.Verdict, r.Reason = TooFew, "no rank can be called a straggler: "+r.Waiting.Unclaimed
	case r.compared < 2 && !r.judged && r.Waiting == nil:
		r.Verdict, r.Reason = TooFew, "there is nothing to compare a rank with"
	default:
		r.Verdict, r.Reason = Even, r.evenReason("rank", "its siblings")
	}
	if r.unchecked > 0 {
		r.Reason += fmt.Sprintf("; %d of %d GPUs were not checked for faults", r.unchecked, r.GPUs)
	}
	r.ExitCode = r.Verdict.ExitCode()
}

// noteUndecided records a figure that is worse but not off: it has too few siblings or too much uncertainty.
func (r *Report) noteUndecided(j *judged, who string) {
	switch by := j.worseShare(j.median); {
	case j.few && by > r.fewBy:
		r.fewBy = by
		r.few = fmt.Sprintf("%s of %s is %s worse than the median of the %d others, and how much healthy ones differ is not known from fewer than %d", j.metric, who, gpuprof.FormatPercent(by, 2), j.siblings-1, LeastSiblings)
	case j.isDoubtful():
		r.unsure++
		r.Notes = append(r.Notes, unsteadyText(j, who, "its siblings"))
	}
}

func (r *Report) evenReason(who, others string) string {
	switch r.unsure {
	case 0:
		return fmt.Sprintf("no %s of %d is slower than %s", who, r.World, others)
	case 1:
		return fmt.Sprintf("no %s of %d is shown to be slower than %s: 1 figure is worse, and not known well enough to tell", who, r.World, others)
	}
	return fmt.Sprintf("no %s of %d is shown to be slower than %s: %d figures are worse, and not known well enough to tell", who, r.World, others, r.unsure)
}

func (r *Report) ranksOff() []int {
	var off []int
	for _, f := range r.Off {
		if !slices.Contains(off, f.Rank) {
			off = append(off, f.Rank)
		}
	}
	slices.Sort(off)
	return off
}

// unusedText counts the unusable objects and failed ranks.
func unusedText(unused, failed int) string {
	switch {
	case unused == 1 && failed == 1:
		return "1 rank failed, or its object could not be used"
	case unused == failed:
		return fmt.Sprintf("%d ranks failed, or their objects could not be used", failed)
	case unused == 1:
		return "1 object could not be used"
	}
	return fmt.Sprintf("%d objects could not be used, or are of ranks that failed", unused)
}

// waitingReason describes the rank that delays the others; "" without one.
func (r *Report) waitingReason() string {
	if r.Waiting == nil || len(r.Waiting.Stragglers) == 0 {
		return ""
	}
	s := &r.Waiting.Stragglers[0]
	who := RanksText(s.Ranks)
	if len(s.Ranks) > 1 && s.Node != "" {
		who = "node " + s.Node
	}
	costs := "costs"
	if strings.HasPrefix(who, "ranks ") {
		costs = "cost"
	}
	return fmt.Sprintf("the others wait for %s, which %s up to %s per step (%.0f %%)", who, costs, gpuprof.FormatSeconds(float64(s.CostS)), 100*float64(s.Share))
}

// NodeText formats a node's name for use after "on"; some launchers only number the nodes.
func NodeText(node string) string {
	if _, err := strconv.ParseUint(node, 10, 64); err == nil {
		return "node " + node
	}
	return node
}
