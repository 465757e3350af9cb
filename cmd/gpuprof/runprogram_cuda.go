package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/dynlib"
	"github.com/gpuprof/gpuprof/internal/record"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

// envAsk names a libcupti in a process that is to load it and print the version of its
// interface: a library that does not fit this machine may end the process that loads it.
const envAsk = "GPUPROF_ASK_CUPTI"

// askWithin is how long that may take.
const askWithin = 10 * time.Second

// answered says that this process was started to ask a libcupti, and has printed the answer.
func answered(getenv func(string) string, w io.Writer) bool {
	path := getenv(envAsk)
	if path == "" {
		return false
	}
	h, err := dynlib.Open(path)
	if err != nil {
		fmt.Fprintln(w, err)
		return true
	}
	f := dynlib.Symbol(h, "cuptiGetVersion")
	if f == 0 {
		fmt.Fprintln(w, "it has no cuptiGetVersion")
		return true
	}
	var version func(*uint32) int32
	dynlib.Bind(&version, f)
	var v uint32
	if code := version(&v); code != 0 {
		fmt.Fprintf(w, "cuptiGetVersion returned %d\n", code)
		return true
	}
	fmt.Fprintln(w, v)
	return true
}

// asksCUPTI is askCUPTI; nil in a program that can load no library, where a process of its own
// cannot either.
func asksCUPTI() func(path string) (int, error) {
	if dynlib.Unable != "" {
		return nil
	}
	return askCUPTI
}

// askCUPTI is the version of the interface of a libcupti, asked in a process of its own.
func askCUPTI(path string) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithTimeout(context.Background(), askWithin)
	defer stop()
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = os.Args[:1]
	cmd.Env = append(os.Environ(), envAsk+"="+path, "CUDA_INJECTION64_PATH=", "NVTX_INJECTION64_PATH=")
	out, err := cmd.Output()
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(out))
	v, err := strconv.Atoi(text)
	if err != nil {
		return 0, errors.New(text)
	}
	return v, nil
}

// driverCUDA is the CUDA release of the driver as it counts, 12080 for 12.8; 0 where there is none.
func driverCUDA() int {
	major, minor, _ := strings.Cut(findDriver().CUDA, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil {
		return 0
	}
	return a*1000 + b*10
}

// sayCUDA says what the CUDA recorder kept.
func (p *program) sayCUDA(r *record.Result) {
	var records, lost int64
	processes, cupti := map[int]bool{}, 0 // with several windows a process is there several times
	for _, q := range r.CUDA {
		if q.File == "" || q.CUPTI == 0 {
			continue
		}
		processes[q.PID] = true
		records += q.Records
		if cupti = q.CUPTI; len(q.Lost) > 2 {
			lost += q.Lost[0] + q.Lost[1] + q.Lost[2]
		}
	}
	n := len(processes)
	if n == 0 {
		return
	}
	text := fmt.Sprintf("recorded %s of CUDA", plural(int(records), "record"))
	if n > 1 {
		text += fmt.Sprintf(" in %d processes", n)
	}
	if records == 0 {
		text = "recorded CUDA until the program was killed"
	}
	p.app.note("%s (CUPTI %s); lost %s", text, record.ReleaseOf(cupti), plural(int(lost), "record"))
	p.app.sayLeftOut(r, p.WindowAfter+p.TimeWindow)
}

// sayLeftOut says how many records lay after a window and were cut off.
func (a *app) sayLeftOut(r *record.Result, window time.Duration) {
	n := int64(0)
	for _, p := range r.CUDA {
		n += p.LeftOut
	}
	if n > 0 {
		a.note("left out %s after the window of %s, which were written before the recorder stopped", plural(int(n), "record"), gpuprof.FormatSeconds(window.Seconds()))
	}
}

func windowsWere(n int) string {
	if n == 1 {
		return "1 window was"
	}
	return fmt.Sprintf("%d windows were", n)
}

// showLive says how an armed program is recorded, and prints tables while the program runs, as
// --watch asks; end ends that.
func (p *program) showLive() (end func()) {
	if p.Idle {
		p.app.note("the recorder is armed; record a window with gpuprof record %s", p.dir)
	}
	if !p.Watch {
		return func() {}
	}
	ctx, stop := context.WithCancel(p.app.ctx)
	w := &watching{dir: p.dir, shown: p.dir, out: p.app.stderr, whole: true, pause: time.After}
	var wg sync.WaitGroup
	wg.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.WatchEvery):
		}
		_ = w.follow(ctx, p.WatchEvery, false) // the program's recording is read again at its end, and what is wrong with it said then
	})
	return func() {
		stop()
		wg.Wait()
	}
}

// sayCUDASteps says which steps the recordings have: of the first that has any.
func (p *program) sayCUDASteps(indexes []*analyze.Index) {
	for _, x := range indexes {
		if !x.Stepped() {
			continue
		}
		var took []int64
		first := int64(math.MaxInt64)
		for i := range x.Steps {
			if s := &x.Steps[i]; !s.Dropped {
				took, first = append(took, s.Window.Len()), min(first, s.Window.Start)
			}
		}
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		what := plural(len(took), "step") + " (" + x.StepSource + ")"
		if x.StepLaunches > 0 {
			what = fmt.Sprintf("%s of %d launches (found by %s)", plural(len(took), "repeat"), x.StepLaunches, x.StepSource)
		}
		p.app.note("recorded %s from second %.1f on, %s each (median)", what, gpuprof.Seconds(first-x.Span.Start), gpuprof.FormatNS(took[len(took)/2]))
		return
	}
	p.app.note("no steps were found, by NVTX ranges or by the order of launches: the whole recording is analysed")
}

// cuptiLine says which libcupti the CUDA recorder would use, and whether it fits the driver.
func cuptiLine(found []record.CUPTI, searched []string, driver int) gpuprof.CheckLine {
	l := gpuprof.CheckLine{Name: "cupti", State: gpuprof.OK}
	if len(found) == 0 {
		l.State, l.Found = gpuprof.Missing, "no libcupti"
		if path := record.SilentCUPTI(searched); path != "" {
			l.Reason = path + " does not answer when it is asked for its version, as without an NVIDIA driver"
			l.Fix = "check the driver with nvidia-smi, or name another libcupti with gpuprof run --cupti PATH"
			return l
		}
		l.Reason = fmt.Sprintf("it is in none of %d folders of CUDA and of Python packages", len(searched))
		l.Fix = "install the CUDA toolkit or nvidia-cuda-cupti-cu12 to record programs that are not PyTorch (gpuprof run --cuda)"
		return l
	}
	l.Found = found[0].Path
	if v := found[0].Release(); v != "" {
		l.Found += ", CUDA " + v
	}
	switch {
	case driver > 0 && found[0].CUDA > driver:
		l.State = gpuprof.Missing
		l.Reason = fmt.Sprintf("it is newer than the driver, which is of CUDA %d.%d", driver/1000, driver%1000/10)
		l.Fix = "install a libcupti that is not newer, such as pip install nvidia-cuda-cupti-cu12, and name it with --cupti"
	case len(found) > 1:
		l.Found += fmt.Sprintf(", and %d more", len(found)-1)
	}
	return l
}

// examineCUPTI is the line of doctor about libcupti; false where there is neither a driver nor one.
func examineCUPTI() (gpuprof.CheckLine, bool) {
	driver := driverCUDA()
	found, searched := record.FindCUPTI(os.Environ(), "", driver, asksCUPTI())
	return cuptiLine(found, searched, driver), driver > 0 || len(found) > 0
}
