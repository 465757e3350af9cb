// Package bisect implements gpuprof bisect, which finds the commit that made a program slower. It checks out, builds
// and measures commits for the search in internal/bisect, and stores the state of the search in a file. GOOD is the
// older end of the range of commits, BAD the newer one. A quartet is four processes that compare two commits, in the
// order old, new, new, old. The package imports the packages cli and judge, but no package of another subcommand.
package bisect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/internal/bisect"
	"github.com/gpuprof/gpuprof/internal/document"
)

// Cmd has the arguments and flags of gpuprof bisect.
type Cmd struct {
	Args       []string      `arg:"" optional:"" name:"arg" sep:"none" complete:"range" help:"GOOD..BAD, two git revisions, then a WORKLOAD of gpuprof's own checkout; or a command follows --."`
	Metric     string        `placeholder:"NAME" help:"The metric to search with; without it the one that is slower with the least doubt."`
	Threshold  *cli.Share    `placeholder:"PERCENT" help:"Slowdown that must be found between GOOD and BAD (5%)."`
	Confidence *cli.Share    `placeholder:"PERCENT" help:"Probability from which on a commit is named (95%)."`
	Scatter    *cli.Share    `placeholder:"PERCENT" help:"By how much builds of equal code differ; without it as the store of GPUPROF_STORE shows it, or 0.3%."`
	Budget     time.Duration `placeholder:"TIME" help:"Time for the search, with its builds (1h)."`
	Skip       []string      `sep:"none" placeholder:"REF" help:"Leave out this commit; may be repeated."`
	Path       []string      `sep:"none" placeholder:"PATH" help:"Search among the commits that change this path; may be repeated."`
	Prior      []string      `sep:"none" placeholder:"PATH" help:"Take the commits that change this path for three times as likely as others; may be repeated."`
	AllParents bool          `help:"If the commit is a merge, search the branch that it merged too."`
	All        bool          `help:"Search for the rest too if the commit explains only a part of the change."`
	Faster     bool          `help:"Find the commit that made the program faster."`
	State      string        `complete:"file" placeholder:"FILE" help:"File that the search is kept in (gpuprof-bisect.json in the repository's .git)."`
	Resume     bool          `help:"Go on with the search that is kept."`
	Show       bool          `help:"Print the search that is kept; measures nothing."`
	Explain    bool          `help:"Print the probability of every commit too."`
	Plan       bool          `help:"Measure GOOD against BAD, print how many builds, quartets of processes and how much time the search is expected to take, and stop; --resume goes on."`
	Seed       uint64        `default:"1" placeholder:"N" help:"Seed of the order of processes (1)."`
	Format     string        `default:"table" formats:"bisect" placeholder:"FORMAT" help:"Format to print: ${bisectFormats}."`
	Output     []string      `short:"o" sep:"none" complete:"file" placeholder:"FILE" help:"Also write FILE, in the format of its extension: ${bisectFiles}; may be repeated."`
	Force      bool          `help:"Replace files that gpuprof did not write."`
	buildFlags `embed:""`
}

// buildFlags has the flags for building and measuring a commit. With --resume they come from the stored search.
type buildFlags struct {
	Build          string   `json:"build,omitempty" placeholder:"COMMAND" help:"How to build the program in a checkout, with a shell; without it nothing is built for a command after --, and gpuprof itself is built with Go."`
	Result         string   `json:"result,omitempty" complete:"file" placeholder:"FILE" help:"File that the command after -- writes its result to, from where it runs; without it its standard output is read."`
	Keep           []string `json:"keep,omitempty" sep:"none" placeholder:"PATH" help:"Leave this folder of a checkout for the next build; may be repeated."`
	Artifact       string   `json:"artifact,omitempty" placeholder:"PATH" help:"File or folder that the build leaves and the command uses: it is kept for each commit, and a commit is built once."`
	Toolchain      string   `json:"toolchain,omitempty" placeholder:"COMMAND" help:"Prints what else a build depends on, such as 'nvcc --version': artifacts are kept for each answer."`
	Cache          cli.Size `json:"cache,omitempty" default:"10GB" placeholder:"SIZE" help:"Room for artifacts; those that were not used for longest are removed (10GB)."`
	Preset         string   `json:"preset,omitempty" placeholder:"NAME" help:"Preset of the workload."`
	Set            []string `json:"set,omitempty" sep:"none" placeholder:"KNOB=VALUE" help:"Knob of the workload; may be repeated."`
	Device         string   `json:"device,omitempty" default:"auto" placeholder:"NAME" help:"Device of the workload; never falls back by itself."`
	judge.LinkFlag `embed:""`
	MinTime        time.Duration `json:"min_time,omitempty" default:"2s" placeholder:"TIME" help:"Measure a workload about this long in each process (2s)."`
}

// Help implements kong.HelpProvider.
func (Cmd) Help() string {
	return "Finds the commit between two revisions from which on a program is slower. " +
		"Every commit is built in a checkout of its own and measured in turn with GOOD, so that the machine's drift cancels; each measurement moves the probabilities of the commits, and the commit that is named was measured against its parent. " +
		"Exits 0 where a commit was named, 3 where BAD is not slower, or could not be decided, or the budget ended before, 4 where GOOD or BAD cannot be built or run. An interrupted search is kept: go on with gpuprof bisect --resume.\n\n" + cli.Examples(
		"gpuprof bisect v1.4..main -- python train.py",
		"gpuprof bisect v1.4..main --build make -- ./bench",
		"gpuprof bisect --show --state search.json",
	)
}

// Run implements gpuprof bisect.
func (c *Cmd) Run(a *cli.App) error {
	if err := c.checkArgs(a.Rest); err != nil {
		return err
	}
	outs, err := a.Documents.Bisect.Outputs(c.Output, c.Force)
	if err != nil {
		return err
	}
	if c.Explain {
		a.Verbose = true
	}
	run, over := judge.NewChildren(a)
	defer over()
	var repo *repository
	if !c.Show || c.State == "" {
		if repo, err = openRepository(run); err != nil {
			return err
		}
	}
	k, err := c.openKeeper(repo)
	if err != nil {
		return err
	}
	defer k.close()
	if c.Show {
		state, err := k.load()
		if err != nil {
			return err
		}
		if state.Outcome == nil {
			state.Chances = state.Believed()
		}
		return c.report(a, &state.Search, outs)
	}
	state, err := c.search(run, repo, k)
	if state == nil {
		return err
	}
	return errors.Join(err, c.report(a, &state.Search, outs))
}

// report prints a search and writes it to the output files. Its error sets the exit code: cli.ExitInconclusive if a
// search ended without a commit.
func (c *Cmd) report(a *cli.App, s *bisect.Search, outs []cli.Output) error {
	k := a.Documents.Bisect
	if err := errors.Join(k.Show(a, c.Format, s), k.Save(a, outs, s, "", c.Force)); err != nil {
		return err
	}
	if o := s.Outcome; !c.Show && o != nil && len(s.Before) == 0 && (o.Found == bisect.Open || o.Found == bisect.Nothing || o.Found == bisect.Undecided) {
		return cli.Verdict{Code: cli.ExitInconclusive} // the report has the message
	}
	return nil
}

func (c *Cmd) checkArgs(rest []string) error {
	refuse := func(what, fix string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof bisect: %s", what).WithFix("%s", fix)
	}
	kept := c.Resume || c.Show
	switch {
	case c.Resume && c.Show:
		return refuse("--show measures nothing, and --resume measures", "leave one out")
	case c.Plan && kept:
		return refuse("--plan begins a search, and --resume and --show take the one that is kept", "leave --plan out")
	case c.Budget < 0:
		return refuse("the time of --budget must be above 0", "give for example --budget 1h")
	case !kept && len(c.Args) == 0:
		return refuse("no range of commits is given", "give for example gpuprof bisect v1.4..main -- ./bench")
	case len(c.Args) > 2:
		return refuse(fmt.Sprintf("%s is one word too many", c.Args[2]), "give GOOD..BAD and a workload, or GOOD..BAD and a command after --")
	case rest != nil && len(rest) == 0:
		return refuse("no command follows --", "give the one that writes a result")
	case len(c.Args) > 0 && !cli.TwoEnds(c.Args[0]):
		return refuse(c.Args[0]+" is no range of commits", "give GOOD..BAD, for example v1.4..main")
	case !kept && len(c.Args) == 1 && len(rest) == 0:
		return refuse("nothing to measure is given", "add -- and a command that writes a result, or the name of a workload")
	case len(c.Args) == 2 && len(rest) > 0:
		return refuse(c.Args[1]+" is a workload, and a command to be measured follows --", "leave one out")
	}
	if err := c.checkUnusedFlags(len(rest) > 0, kept); err != nil {
		return err
	}
	return c.checkShares()
}

// checkUnusedFlags refuses flags that would have no effect.
func (c *Cmd) checkUnusedFlags(command, kept bool) error {
	refuse := func(flag, why string) error {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the command line of gpuprof bisect: %s %s", flag, why).WithFix("leave it out")
	}
	for _, f := range []struct {
		flag  string
		given bool
		of    string // "workload" or "command": the only kind of program that takes the flag; "" for both
	}{
		{"--preset", c.Preset != "", "workload"}, {"--set", len(c.Set) > 0, "workload"}, {"--device", c.Device != "auto", "workload"},
		{"--result", c.Result != "", "command"}, {"--artifact", c.Artifact != "", "command"}, {"--build", c.Build != "", ""}, {"--keep", len(c.Keep) > 0, ""}, {"--link", len(c.Link) > 0, "command"}, {"--toolchain", c.Toolchain != "", ""},
	} {
		switch {
		case !f.given:
		case kept:
			return refuse(f.flag, "is kept with the search")
		case command && f.of == "workload":
			return refuse(f.flag, "is for a workload of gpuprof's, and a command follows --")
		case !command && f.of == "command":
			return refuse(f.flag, "is for a command after --, and there is none")
		}
	}
	if c.Artifact != "" && c.Build == "" {
		return refuse("--artifact", "is left by --build, which is not given")
	}
	return cli.OneSetting(c.Set)
}

func (c *Cmd) checkShares() error {
	for _, f := range []struct {
		flag       string
		value      *cli.Share
		lo, hi     float64
		of, remedy string
	}{
		{"--threshold", c.Threshold, 0, 1, "above 0", "5%"}, {"--confidence", c.Confidence, 0.5, 1, "above 50 % and below 100 %", "95%"}, {"--scatter", c.Scatter, -1, 1, "below 100 %", "0.3%"},
	} {
		if f.value != nil && (float64(*f.value) <= f.lo || float64(*f.value) >= f.hi) {
			return gpuprof.Errorf(gpuprof.ErrUsage, "reading %s: it must be %s", f.flag, f.of).WithFix("give for example %s %s", f.flag, f.remedy)
		}
	}
	return nil
}

func shareOr(s *cli.Share, otherwise float64) float64 {
	if s == nil {
		return otherwise
	}
	return float64(*s)
}

// assumeScatter returns the relative spread between builds of equal code, and whether the user gave it ("given") or it
// is the default ("assumed").
func (c *Cmd) assumeScatter() (value float64, from string) {
	if c.Scatter != nil {
		return float64(*c.Scatter), "given"
	}
	return assumedScatter, "assumed"
}

const (
	assumedScatter = 0.003
	defaultBudget  = time.Hour
)

func (c *Cmd) newState(run judge.Children, repo *repository, span commitRange) *searchState {
	machine, _ := (&judge.Builds{}).Runner(run.App)
	scatter, from := c.assumeScatter()
	st := &searchState{Again: recipe{Command: run.App.Rest, Prefix: repo.prefix, How: c.buildFlags}}
	if len(c.Args) > 1 {
		st.Again.Workload = c.Args[1]
	}
	words := slices.Clone(run.App.Rest)
	if st.Again.Workload != "" {
		words = []string{"gpuprof", "run", st.Again.Workload}
	}
	st.Search = bisect.Search{
		Head: document.NewHead(document.Bisect, run.App.Tool), Started: time.Now().UTC().Truncate(time.Second), Status: gpuprof.Partial,
		Range: document.CleanText(c.Args[0]), Good: span.good, Commits: span.commits, Command: document.MaskCommand(words), Machine: machine, Metric: c.Metric,
		Options: bisect.Options{Threshold: shareOr(c.Threshold, 0.05), Confidence: shareOr(c.Confidence, 0.95), Scatter: scatter, ScatterFrom: from,
			BudgetS: cmp.Or(c.Budget, defaultBudget).Seconds(), Seed: c.Seed, Faster: c.Faster, All: c.All, AllParents: c.AllParents, Prior: slices.Clone(c.Prior), Keeps: c.Artifact != ""},
		Builds: []bisect.Build{}, Failed: []bisect.Failure{},
	}
	document.CleanStrings(&st.Search.Options)
	for _, m := range span.skipped {
		st.Failed = append(st.Failed, bisect.Failure{Commit: m, Why: "left out with --skip"})
	}
	return st
}
