package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/child"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/outside"
	"github.com/gpuprof/gpuprof/workloads/devicebench"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// measureGPUs implements doctor --bench: it measures the GPUs and prints the report. Its error sets the exit code.
func (c *Cmd) measureGPUs(a *cli.App, machine *Machine) error {
	ranges, err := ShippedRanges()
	if err != nil {
		return err
	}
	reference, err := c.Reference(a)
	if err != nil {
		return err
	}
	sink, files, err := a.RankOutput(c.Output)
	if err != nil {
		return err
	}
	outs, err := a.Documents.Health.Outputs(files, c.Force)
	if err != nil {
		return err
	}
	var cards []health.Card
	var last Measured
	for round := range c.Rounds {
		started := time.Now()
		if last, err = c.measureOnce(a, machine, round+1 == c.Rounds); err != nil {
			return err
		}
		cards = health.Best(cards, last.Cards)
		if !slices.ContainsFunc(last.Cards, func(c health.Card) bool { return len(c.Metrics) > 0 }) {
			break // another round cannot improve a figure
		}
		if round+1 < c.Rounds && cli.Pause(a.Ctx, betweenRounds-time.Since(started)) != nil {
			return cli.ErrInterrupted
		}
	}
	last.Cards = cards
	last.Reference = reference
	return c.Conclude(a, last, ranges, outs, sink)
}

// betweenRounds is the time from one round's start to the next, so that a passing disturbance of a GPU affects only one
// round.
const betweenRounds = time.Minute

// Measured is the result of one round of doctor --bench.
type Measured struct {
	Cards  []health.Card
	links  []health.Link
	reduce *health.AllReduce
	// Reference has the rates of a fleet; nil without --against.
	Reference *fleet.Report
}

// Reference reads the fleet's report of --against, before anything is measured; nil without the flag.
func (c *Cmd) Reference(a *cli.App) (*fleet.Report, error) {
	if c.Against == "" {
		return nil, nil
	}
	text, err := outside.ReadAll(a.Ctx, c.Against)
	if err != nil {
		return nil, outside.Failed("reading the reference "+c.Against, err, "give what gpuprof fleet -o FILE.json wrote", "write it again with gpuprof fleet -o FILE.json")
	}
	r := &fleet.Report{}
	if err := document.Decode(text, c.Against, r, document.Fleet); err != nil {
		return nil, err
	}
	if err := r.UsableReference(c.Against); err != nil {
		return nil, err
	}
	return r, nil
}

// measureOnce measures every chosen GPU once. In the last round it also measures the links between the GPUs.
func (c *Cmd) measureOnce(a *cli.App, machine *Machine, last bool) (m Measured, err error) {
	if c.usesProcess() {
		m.Cards = c.examineInProcess(a.Ctx, machine)
		if a.Ctx.Err() != nil {
			return m, cli.ErrInterrupted
		}
		return m, nil
	}
	began := time.Now()
	sight, err := machine.GPUs()
	defer func() { _ = sight.Close() }() // nothing is measured after this; errors were reported
	if err != nil {
		// If no GPU can be measured, a fault that the machine reports is the reason.
		m.Cards = sight.Accounts(a.Ctx, nil, len(c.Device) == 0)
		if slices.ContainsFunc(m.Cards, func(c health.Card) bool { return c.Faulty() }) {
			return m, nil
		}
		if slices.ContainsFunc(c.Output, cli.IsRankFolder) { // gpuprof fleet then reports the node and the reason
			return Measured{Cards: FailedCard(health.AllGPUs, err)}, nil
		}
		return m, err
	}
	_, some := os.LookupEnv("CUDA_VISIBLE_DEVICES")
	everyGPU := len(c.Device) == 0 && !some
	here, away, err := chooseGPUs(sight, c.Device)
	if err != nil {
		return m, err
	}
	var targets []devicebench.Target
	for _, i := range here {
		t, err := sight.Target(i)
		if err != nil {
			return m, err
		}
		targets = append(targets, t)
	}
	if c.As == "health" {
		if used := usedBy(targets); used != nil {
			return Measured{Cards: sight.Accounts(a.Ctx, used, everyGPU)}, nil
		}
	}
	bar := newBenchProgress(a, len(targets), len(away))
	defer bar.close()
	var options devicebench.Options
	if late := func() bool { return time.Since(began) > c.Within-spare }; c.Quick {
		options = devicebench.Quick(late)
	}
	options.Progress = bar.showPhase
	m.Cards = devicebench.Run(a.Ctx, targets, options)
	if last && !c.Quick && a.Ctx.Err() == nil && len(here) > 1 {
		bar.showPhase("all", "links")
		m.links, m.reduce = sight.Between(a.Ctx, here, linkBytes)
	}
	for _, uuid := range away {
		if a.Ctx.Err() != nil {
			break
		}
		bar.showPhase(uuid, "in a process of its own")
		m.Cards = append(m.Cards, benchElsewhere(a.Ctx, uuid)...)
	}
	bar.close()
	if a.Ctx.Err() != nil {
		return m, cli.ErrInterrupted
	}
	m.Cards = sight.Accounts(a.Ctx, m.Cards, everyGPU)
	return m, nil
}

// Conclude judges the figures, and prints and writes the report. It returns the verdict as an error with an exit code.
func (c *Cmd) Conclude(a *cli.App, m Measured, ranges *health.Ranges, outs []cli.Output, sink *cli.RankSink) error {
	var beside map[health.Figure]health.Beside
	var notes []string
	if m.Reference != nil {
		beside, notes = m.Reference.Beside(m.Cards)
	}
	report, err := health.Judge(beside, m.Cards, ranges, a.Tool)
	if err != nil {
		return err
	}
	report.Notes = append(report.Notes, notes...)
	report.Links, report.AllReduce = m.links, m.reduce
	return c.writeReport(a, report, outs, sink)
}

// writeReport prints and writes a report and returns its verdict as an error.
func (c *Cmd) writeReport(a *cli.App, report *health.Report, outs []cli.Output, sink *cli.RankSink) error {
	if report.Node = cli.NodeName(); report.Measured.IsZero() {
		report.Measured = time.Now().UTC().Truncate(time.Second)
	}
	report.Notes = slices.DeleteFunc(report.Notes, func(n string) bool { return n == "" })
	document.CleanStrings(report)
	text, err := json.Marshal(report)
	if err != nil {
		return gpuprof.Errorf(nil, "encoding the health report: %w", err).WithFix("this is a fault in gpuprof, please report it")
	}
	doc := a.Documents.Health
	if err := errors.Join(doc.Show(a, c.Format, report), doc.Save(a, outs, report, "", c.Force), sink.Leave(document.Health, text)); err != nil {
		return err
	}
	return c.asScheduler(a, report, verdictOf(report, sink))
}

func verdictOf(report *health.Report, sink *cli.RankSink) error {
	switch report.Verdict {
	case health.Healthy:
		return nil
	case health.NotChecked:
		return cli.Verdict{Code: cli.ExitInconclusive, Text: fmt.Sprintf("checking the GPUs: not checked: %s; run as root on the node itself, or check these GPUs by other means", report.Reason)}
	case health.Unknown:
		// A node with a single GPU has nothing to compare with: gpuprof fleet compares it with other nodes.
		if sink != nil {
			return nil
		}
		return cli.Verdict{Code: cli.ExitInconclusive, Text: fmt.Sprintf("checking the GPUs: %s; compare with an equal GPU in the same machine, or with the figures of a healthy machine", report.Reason)}
	case health.Failed:
		var causes []string
		for _, card := range report.Devices {
			if card.Error != "" {
				causes = append(causes, card.Device+": "+card.Error)
			}
		}
		return gpuprof.Errorf(gpuprof.ErrDevice, "checking the GPUs: %s: %s", report.Reason, strings.Join(causes, "; "))
	case health.Unhealthy:
		first := report.Off[0]
		return cli.Verdict{Code: cli.ExitRegression, Text: fmt.Sprintf("checking the GPUs: %s; begin with %s of %s: %s", report.Reason, first.Metric, first.Device, first.Fix)}
	}
	return nil
}

// chooseGPUs returns the chosen GPUs: here has positions in Shown, away the UUIDs of GPUs that CUDA does not show this
// process. A name is CUDA's index with or without "cuda:", a UUID or its beginning, a MIG instance such as "0:1", or a
// PCI bus ID. Without names, all GPUs are chosen.
func chooseGPUs(view gpuNames, names []string) (here []int, away []string, err error) {
	shown := view.Shown()
	if len(names) == 0 {
		for i := range shown {
			here = append(here, i)
		}
		return here, view.Hidden(), nil
	}
	for _, name := range names {
		i, err := shownAs(shown, name)
		if err != nil {
			return nil, nil, err
		}
		if i < 0 {
			uuid, err := view.Elsewhere(name)
			if err != nil {
				return nil, nil, gpuprof.Errorf(gpuprof.ErrDevice, "%w", err)
			}
			if i = slices.IndexFunc(shown, func(g GPUName) bool { return g.UUID == uuid }); i < 0 {
				if !slices.Contains(away, uuid) {
					away = append(away, uuid)
				}
				continue
			}
		}
		if !slices.Contains(here, i) {
			here = append(here, i)
		}
	}
	return here, away, nil
}

// shownAs returns the position in shown of the GPU whose index or UUID is name; -1 if there is none. An index that is
// not shown is an error.
func shownAs(shown []GPUName, name string) (int, error) {
	want := strings.ToLower(name)
	number, isCuda := strings.CutPrefix(want, "cuda:")
	if n, err := strconv.Atoi(number); err == nil && len(number) <= 3 {
		i := slices.IndexFunc(shown, func(g GPUName) bool { return g.Index == n })
		if i < 0 {
			return -1, notShown(shown, name)
		}
		return i, nil
	}
	if isCuda {
		return -1, notShown(shown, name)
	}
	if len(strings.TrimPrefix(strings.TrimPrefix(want, "gpu-"), "mig-")) < 4 {
		return -1, nil // the beginning of a UUID is too short to be unique
	}
	found := -1
	for i, g := range shown {
		id := strings.ToLower(g.UUID)
		if !strings.HasPrefix(id, want) && !strings.HasPrefix(id[min(4, len(id)):], want) {
			continue
		}
		if found >= 0 {
			return -1, gpuprof.Errorf(gpuprof.ErrDevice, "choosing device %s: it fits %s and %s", name, shown[found].UUID, g.UUID).WithFix("give more of the UUID")
		}
		found = i
	}
	return found, nil
}

func notShown(shown []GPUName, name string) error {
	var names []string
	for _, g := range shown {
		names = append(names, fmt.Sprintf("%d (%s, %s)", g.Index, g.Name, g.UUID))
	}
	if len(names) == 0 {
		names = []string{"no GPU"}
	}
	return gpuprof.Errorf(gpuprof.ErrDevice, "choosing device %s: CUDA shows this process %s", name, strings.Join(names, ", ")).WithFix("choose one of them")
}

// benchElsewhere measures a GPU or MIG instance in another process, because CUDA shows a process only one MIG instance.
func benchElsewhere(ctx context.Context, uuid string) []health.Card {
	exe, err := cli.OwnProgram()
	if err != nil {
		return failedGPU(uuid, err)
	}
	return benchBy(ctx, child.Command{Args: []string{exe, "doctor", "--bench", "--format", "json", "--device", "0", "--quiet"}, Name: os.Args[0]}, uuid)
}

// benchBy runs a command that measures a GPU or MIG instance. CUDA shows the command only the device with this UUID.
func benchBy(ctx context.Context, cmd child.Command, uuid string) []health.Card {
	cmd.Env = append(cmd.Env, "CUDA_VISIBLE_DEVICES="+uuid)
	out, words, runErr := cmd.Run(ctx)
	cards, err := CardsOf(out, uuid)
	if err == nil {
		return cards
	}
	if runErr != nil {
		err = cli.ProcessError(runErr, words)
	}
	return failedGPU(uuid, err)
}

// CardsOf parses the report of the process that measured one GPU, and returns the GPU's health.Card. The card names the
// device by its UUID: the process calls it device 0, which is another GPU in this process.
func CardsOf(text []byte, uuid string) ([]health.Card, error) {
	var r health.Report
	if err := document.Decode(text, "the output", &r, document.Health); err != nil {
		return nil, gpuprof.Errorf(nil, "reading the output of the process for %s: %w", uuid, err).WithFix("set CUDA_VISIBLE_DEVICES=%s and run it again", uuid)
	}
	if len(r.Devices) != 1 {
		return nil, gpuprof.Errorf(gpuprof.ErrDevice, "measuring %s: its process saw %d devices", uuid, len(r.Devices)).WithFix("set CUDA_VISIBLE_DEVICES=%s and run it again", uuid)
	}
	c := r.Devices[0]
	c.Device = uuid
	if c.Error != "" {
		c.Err = errors.New(c.Error)
	}
	return []health.Card{c}, nil
}

// benchProgress shows the current phase on a terminal.
type benchProgress struct {
	mu          sync.Mutex
	bar         *cli.Progress
	done, total int
}

// phasesOf is the number of phases per device that devicebench.Run reports.
const phasesOf = 6

func newBenchProgress(a *cli.App, here, away int) *benchProgress {
	return &benchProgress{bar: a.NewProgress("doctor"), total: here*phasesOf + away + min(here/2, 1)}
}

func (p *benchProgress) showPhase(device, phase string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bar.Show(measure.Progress{Phase: phase, Note: device, Done: float64(p.done), Total: float64(p.total)})
	p.done++
}

func (p *benchProgress) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bar.Close()
}
