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

// Verdict is the outcome for a job.
type Verdict string

// The verdicts.
const (
	Even   Verdict = "even"    // no rank is off
	Waited Verdict = "waiting" // the others wait for a rank, which is a finding and no fault
	Uneven Verdict = "uneven"  // at least one is
	TooFew Verdict = "too-few" // nothing to compare with
	Broken Verdict = "broken"  // a rank failed or is missing
)

// ExitCode is the code that gpuprof fleet ends with.
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

// Off is a figure of one rank that is not as its siblings'.
type Off struct {
	Rank     int            `json:"rank"`
	Node     string         `json:"node,omitempty"`
	Device   string         `json:"device,omitempty"`
	Metric   string         `json:"metric"`
	Unit     string         `json:"unit"`
	Value    gpuprof.Number `json:"value"`
	Worse    gpuprof.Number `json:"worse_by"` // share of the siblings' median
	P        gpuprof.Number `json:"p"`        // of being so low by chance; 0 for a fault by the GPU's own account
	Siblings int            `json:"siblings"` // 0 for a fault by the GPU's own account, and for one beside the shipped range
	Cause    string         `json:"cause"`
	Evidence bool           `json:"evidence"` // the cause was seen there
	Fix      string         `json:"fix"`

	of  int  // the GPU among those of the report
	own bool // by the GPU's own account
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
	GPUs     int      `json:"gpus"` // with a health report
	Workload string   `json:"workload,omitempty"`
	Command  []string `json:"command,omitempty"` // of the program that the ranks ran
	Metrics  []Metric `json:"metrics"`
	// Reference is what the GPUs of the fleet reach, by which another one can be judged.
	Reference []Norm   `json:"reference,omitempty"`
	Off       []Off    `json:"off"` // the worst first
	Missing   []int    `json:"missing_ranks"`
	Failed    []int    `json:"failed_ranks"`
	Problems  []string `json:"problems"` // what was left out and why
	Notes     []string `json:"notes"`

	Recordings []Recording `json:"recordings,omitempty"` // of the program that the ranks ran
	Waiting    *Waiting    `json:"waiting,omitempty"`    // of two ranks that communicate, or more
	Devices    *Devices    `json:"devices,omitempty"`    // of one machine, by run --devices: each is a rank here

	// Top is how many rows of each table are asked for, the worst, 0 what fits.
	Top int `json:"-"`

	compared int     // the most siblings that any figure had
	few      string  // which figure is worse than those of too few siblings; the worst
	fewBy    float64 // by which share
	unsure   int     // figures that are worse, and not known well enough to be off
	judged   bool    // a health report has a verdict of its own
	// unchecked are the GPUs for which no source of faults that decides answered.
	unchecked int
	nodeOf    map[int]string      // by rank
	kinds     map[string][]string // of GPUs, by node
}

// Options say how a job is judged.
type Options struct {
	AllowMismatch []string // fields that may differ between ranks
	AllowMissing  bool     // a missing rank is no failure
	// MostWaiting is the share of the step from which a straggler counts as off; 0: none does.
	MostWaiting float64
	Again       []*Job // further measurements of the same nodes: only what is off in all of them stays off
	Top         int    // rows of each table that are asked for, 0 what fits
	Tool        gpuprof.Tool
}

// Merge judges what a bucket holds. The error, ErrInput, is for one without an object
// that can be read.
func Merge(job *Job, o Options) (*Report, error) {
	for _, j := range append([]*Job{job}, o.Again...) {
		if err := j.empty(); err != nil {
			return nil, err
		}
	}
	if err := checkAgain(job, o.Again); err != nil {
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
	r.runs(job, o)
	r.health(job, o)
	r.programs(job)
	r.conclude(o)
	document.CleanStrings(r)
	return r, nil
}

func newReport(job *Job, o Options) *Report {
	return &Report{Head: document.NewHead(document.Fleet, o.Tool), World: job.World, Top: o.Top, Launcher: job.Objects[0].Launcher, Nodes: []string{},
		Metrics: []Metric{}, Off: []Off{}, Missing: append([]int{}, job.Missing...), Failed: []int{}, Problems: append([]string{}, job.Problems...), Notes: append([]string{}, job.Notes...),
		nodeOf: map[int]string{}, kinds: map[string][]string{}}
}

// empty is an error if the bucket holds no object that can be read.
func (j *Job) empty() error {
	if len(j.Objects) > 0 {
		return nil
	}
	why, fix := "it holds no object of a rank", "give the folder that every rank wrote to with -o FOLDER/"
	if len(j.Problems) > 0 {
		why = j.Problems[0]
	}
	if len(j.Elsewhere) > 0 {
		why, fix = j.instead()
	}
	return gpuprof.Errorf(gpuprof.ErrInput, "merging %s: %s", j.where, why).WithFix("%s", fix)
}

// instead says where the objects lie that a bucket does not hold itself.
func (j *Job) instead() (why, fix string) {
	const most = 3
	var folders []string
	for _, folder := range j.Elsewhere[:min(len(j.Elsewhere), most)] {
		folders = append(folders, below(j.where, folder))
	}
	text := strings.Join(folders, ", ")
	if more := len(j.Elsewhere) - most; more > 0 {
		text += fmt.Sprintf(" or %d more", more)
	}
	switch {
	case j.Elsewhere[0] == Above:
		return "it is the folder of one kind of objects, inside that of the job", "give the folder of the job, " + below(j.where, Above)
	case len(folders) == 1:
		return "it holds no object of a rank itself, but a folder in it does", "give the folder of the job, " + text
	}
	return fmt.Sprintf("it holds no object of a rank itself, but %d folders in it do", len(j.Elsewhere)), "give the folder of one job: " + text
}

// below is a folder in or above a bucket, by the name that opens it.
func below(where, folder string) string {
	if scheme, rest, ok := strings.Cut(where, "://"); ok {
		return scheme + "://" + path.Join(rest, folder)
	}
	return filepath.Join(where, folder)
}

// of are the objects of one kind, by rank.
func (j *Job) of(kind gpuprof.DocumentKind) []*Object {
	var out []*Object
	for _, o := range j.Objects {
		if o.Of == kind {
			out = append(out, o)
		}
	}
	return out
}

// leaveOut notes why an object, or a part of it, is not used.
func (r *Report) leaveOut(o *Object, why string) {
	r.Problems = append(r.Problems, why)
	if !slices.Contains(r.Failed, o.Rank) {
		r.Failed = append(r.Failed, o.Rank)
	}
}

// conclude takes the worst of all ranks.
func (r *Report) conclude(o Options) {
	slices.SortStableFunc(r.Off, func(a, b Off) int { return cmp.Compare(b.Worse, a.Worse) })
	slices.Sort(r.Failed)
	off := r.ranksOff()
	switch unused := max(len(r.Failed), len(r.Problems)); {
	case len(r.Missing) > 0 && !o.AllowMissing:
		what := "no object"
		if len(r.Problems) > 0 { // which one a torn object was of is not known
			what = "no object that can be used"
		}
		r.Verdict, r.Reason = Broken, fmt.Sprintf("%d of %d ranks left %s: %s", len(r.Missing), r.World, what, RanksText(r.Missing))
	case unused > 0:
		r.Verdict, r.Reason = Broken, notUsed(unused, len(r.Failed))
	case len(off) > 0:
		r.Verdict, r.Reason = Uneven, fmt.Sprintf("%d of %d ranks slower than their siblings or faulty: %s", len(off), r.World, RanksText(off))
	case r.waitedFor() != "":
		r.Verdict, r.Reason = Waited, r.waitedFor()
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
		r.Verdict, r.Reason = Even, r.none("rank", "its siblings")
	}
	if r.unchecked > 0 {
		r.Reason += fmt.Sprintf("; %d of %d GPUs were not checked for faults", r.unchecked, r.GPUs)
	}
	r.ExitCode = r.Verdict.ExitCode()
}

// hold notes a figure that may be off and is not called so: of too few siblings, or one that is
// not known well enough.
func (r *Report) hold(j *judged, who string) {
	switch by := j.worse(j.median); {
	case j.few && by > r.fewBy:
		r.fewBy = by
		r.few = fmt.Sprintf("%s of %s is %s worse than the median of the %d others, and how much healthy ones differ is not known from fewer than %d", j.metric, who, gpuprof.FormatPercent(by, 2), j.siblings-1, LeastSiblings)
	case j.doubtful():
		r.unsure++
		r.Notes = append(r.Notes, unsteadyText(j, who, "its siblings"))
	}
}

// none is the reason of Even.
func (r *Report) none(who, others string) string {
	switch r.unsure {
	case 0:
		return fmt.Sprintf("no %s of %d is slower than %s", who, r.World, others)
	case 1:
		return fmt.Sprintf("no %s of %d is shown to be slower than %s: 1 figure is worse, and not known well enough to tell", who, r.World, others)
	}
	return fmt.Sprintf("no %s of %d is shown to be slower than %s: %d figures are worse, and not known well enough to tell", who, r.World, others, r.unsure)
}

// ranksOff are the ranks that are off, each once.
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

// notUsed says how many objects could not be used or are of a rank that failed.
func notUsed(unused, failed int) string {
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

// waitedFor says which rank the others wait for, "" none.
func (r *Report) waitedFor() string {
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

// NodeText is a node's name as it stands behind "on": some launchers only number their nodes.
func NodeText(node string) string {
	if _, err := strconv.ParseUint(node, 10, 64); err == nil {
		return "node " + node
	}
	return node
}
