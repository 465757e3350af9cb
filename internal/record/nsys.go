package record

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// innerShell is the shell script between nsys and the program. It notes the program's start, restores the program's
// output, which nsys redirects, and execs the program. If nsys closed the descriptors, it opens the files by name.
const innerShell = `: >"$GPUPROF_STARTED"
out=$GPUPROF_OUT
unset GPUPROF_STARTED GPUPROF_OUT
if { : >&3; } 2>/dev/null; then exec "$@" >&3 2>&4 3>&- 4>&-; fi
if { : >>"$out/1" && : >>"$out/2"; } 2>/dev/null; then exec "$@" >>"$out/1" 2>>"$out/2"; fi
exec "$@"`

// runNsys runs the program under `nsys profile` and exports the report. If nsys ends before the program has started,
// the program runs without it.
func runNsys(ctx context.Context, o *Options, r *Result, s *signals) error {
	r.Recorder = ByNsys
	report := filepath.Join(o.Dir, "report.nsys-rep")
	started := filepath.Join(o.Dir, ".started")
	var said bytes.Buffer
	words := io.Writer(&said)
	if o.Log != nil {
		words = io.MultiWriter(&said, o.Log)
	}
	under := *o
	under.Log = words
	args := append([]string{
		"nsys", "profile", "--trace=cuda,nvtx,osrt", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true",
		"--output=" + strings.TrimSuffix(report, ".nsys-rep"), "sh", "-c", innerShell, "sh",
	}, o.Args...)
	env := setEnviron(o.Env, map[string]string{
		"GPUPROF_STARTED": started,
		"GPUPROF_OUT":     "/proc/" + strconv.Itoa(os.Getpid()) + "/fd",
	})
	err := runChild(ctx, &under, r, s, childOf{args: args, env: env, extra: []*os.File{o.Stdout, o.Stderr}})
	_, ran := os.Stat(started)
	if ran != nil {
		r.warn("nsys-failed", "nsys ended before it had started the program ("+lastLine(said.String())+"), and the program ran without it", "")
		return runChild(ctx, o, r, s, childOf{args: o.Args, env: o.Env})
	}
	if err != nil {
		return err
	}
	_ = os.Remove(started)
	r.exportReport(ctx, o, report, said.String())
	return nil
}

func (r *Result) exportReport(ctx context.Context, o *Options, report, said string) {
	if _, err := os.Stat(report); err != nil {
		r.warn("nsys-failed", "nsys left no report ("+lastLine(said)+"), so there is no trace", "try nsys profile by hand")
		return
	}
	sqlite := filepath.Join(o.Dir, "trace-nsys.sqlite")
	last, err := ExportReport(ctx, report, sqlite, o.Env)
	if err != nil {
		r.warn("nsys-failed", "exporting the report of Nsight Systems failed ("+err.Error()+": "+last+")", "try nsys export --type sqlite "+report)
		return
	}
	r.Traces = append(r.Traces, sqlite)
}

// drainFor limits the wait for the output of processes that an ended nsys leaves running.
const drainFor = time.Second

// ExportReport runs `nsys export` to write a report as an SQLite file and returns the last line that nsys printed; env
// nil means this process's environment. A missing file is an error.
func ExportReport(ctx context.Context, report, sqlite string, env []string) (last string, err error) {
	cmd := exec.CommandContext(ctx, "nsys", "export", "--type", "sqlite", "--force-overwrite=true", "--output", sqlite, report)
	cmd.Env, cmd.WaitDelay = env, drainFor // nsys may leave a process that holds its output open
	text, err := cmd.CombinedOutput()
	if info, statErr := os.Stat(sqlite); err == nil && (statErr != nil || info.Size() == 0) {
		err = errors.New("it left no file")
	}
	return lastLine(string(text)), err
}

// lastLine returns the last line of a text, or a placeholder for an empty text.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if last := strings.TrimSpace(lines[len(lines)-1]); last != "" {
		return last
	}
	return "it said nothing"
}
