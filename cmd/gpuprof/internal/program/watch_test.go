package program

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/record"
)

// A view is refreshed by its clock alone: at most one table at a time, none that has not changed,
// in the place of the one before on a screen.
func TestWatching(t *testing.T) {
	dir := t.TempDir()
	tell := func(lines ...string) {
		if err := os.WriteFile(filepath.Join(dir, "hook.jsonl"), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	torch, begin := `{"event": "torch", "pid": 1, "version": "2.4.0", "rank": 0}`, `{"event": "begin", "pid": 1, "kind": "optimizer", "after": 10, "rank": 0}`
	states := [][]string{{torch}, {torch}, {torch, begin}, {torch, begin, `{"event": "step", "pid": 1, "recorded": 2}`}}
	for _, screen := range []bool{false, true} {
		var out bytes.Buffer
		ctx, stop := context.WithCancel(t.Context())
		var pauses []time.Duration
		tell(states[0]...)
		opening := func(w io.Writer, a gpuprof.Answer) error {
			_, err := fmt.Fprintf(w, "[%s] %s\n", a.Verdict, a.Sentence)
			return err
		}
		w := &watching{dir: dir, shown: "job", out: &out, screen: screen, opening: opening, pause: func(d time.Duration) <-chan time.Time {
			pauses = append(pauses, d)
			if len(pauses) == len(states) {
				stop()
				return nil
			}
			tell(states[len(pauses)]...)
			now := make(chan time.Time, 1)
			now <- time.Time{}
			return now
		}}
		if err := w.showTables(ctx, time.Minute, false); err != nil {
			t.Fatal(err)
		}
		between := "\n"
		if screen {
			between = "\x1b[3A\x1b[J"
		}
		head := "job, process 1, rank 0 (PyTorch): "
		one := "[recording] 1 process is recorded.\n\n" + head
		want := strings.Join([]string{"[recording] 1 process waits for steady steps.\n\n" + head + "waiting for steady steps\n", one + "recording\n", one + "recording, 2 steps so far\n"}, between)
		if out.String() != want || len(pauses) != 4 || pauses[0] < time.Minute {
			t.Errorf("screen %t: %q, want %q; paused %v", screen, out.String(), want, pauses)
		}
	}
}

// A recording that cannot be read at one moment, because it is being written, does not end the tables of a program's own
// terminal. It ends another view, with the error.
func TestWatchingAnUnreadableMoment(t *testing.T) {
	for _, whole := range []bool{true, false} {
		dir, tables := t.TempDir(), 0
		file := filepath.Join(dir, "cuda-1.gpt")
		if err := os.WriteFile(file, []byte("GPT?"), 0o600); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		opening := func(io.Writer, gpuprof.Answer) error {
			tables++
			return nil
		}
		w := &watching{dir: dir, shown: "job", out: io.Discard, whole: whole, opening: opening, pause: func(time.Duration) <-chan time.Time {
			if tables > 0 {
				stop()
				return nil
			}
			if err := os.Remove(file); err != nil {
				t.Error(err)
			}
			now := make(chan time.Time, 1)
			now <- time.Time{}
			return now
		}}
		err := w.showTables(ctx, time.Minute, false)
		stop()
		if whole && (err != nil || tables != 1) || !whole && err == nil {
			t.Errorf("on the program's own terminal %t: %d tables, error %v", whole, tables, err)
		}
	}
}

// What a program did last fits 80 columns, the longest rows first, with what is left out.
func TestLiveTable(t *testing.T) {
	l := record.Live{File: "cuda-7.gpt", Rank: -1, At: time.Unix(1_700_000_000, 0), Over: 30 * time.Second, Steps: 311, StepNS: 96_300_000, Source: "the order of launches", Lost: 4,
		Devices: []record.LiveDevice{{ID: 0, Busy: 0.832, Starved: 0.121}, {ID: 10, Busy: 1}}, Copies: []record.LiveRow{{Name: "Memcpy HtoD (Pinned -> Device)", Count: 311, NS: 934_000_000, Bytes: 12 << 30}}}
	for i := range 10 {
		l.Kernels = append(l.Kernels, record.LiveRow{Name: strings.Repeat("kernel", 20-i) + "\x1b[31m", Count: 10 * (i + 1), NS: int64(1_000_000_000 * (10 - i))})
	}
	got := liveTable("job", []record.Live{l})
	for i, line := range strings.Split(got, "\n") {
		if len([]rune(line)) > 80 || strings.Contains(line, "\x1b") {
			t.Errorf("line %d has %d characters: %q", i, len([]rune(line)), line)
		}
	}
	for _, want := range []string{
		"job/cuda-7.gpt, last 30.0 s to 22:13:20 UTC: recording\n  step 96.3 ms (median of 311, the order of launches)\n",
		"  GPU 0   busy  83.2 %   waits for launches  12.1 %\n  GPU 10  busy 100.0 %   waits for launches   0.0 %\n  up to 4 records were lost\n",
		"10     10.0 s   33.3 %\n", "2 more                                             190     3.00 s   10.0 %\n", "Memcpy HtoD (Pinned -> Device) 12.0 GiB            311     934 ms    3.1 %\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nlacks %q", got, want)
		}
	}
	none := liveTable("job", []record.Live{{File: "cuda-7.gpt", Ended: true}})
	if want := "job/cuda-7.gpt, last 0 ns to "; !strings.HasPrefix(none, want) || !strings.Contains(none, "no step found yet") {
		t.Error(none)
	}
}

// A program on the CPU without torch is shown by the samples of its main thread.
func TestWatchPlain(t *testing.T) {
	dir := t.TempDir()
	loaded, begin := `{"event": "loaded", "pid": 1, "python": "3.12.1"}`, `{"event": "begin", "pid": 1, "kind": "plain", "after": 0}`
	trace, host := `{"event": "trace", "pid": 1, "kind": "plain", "file": "trace-1.json", "whole": true}`, `{"event": "host", "pid": 1, "file": "samples-1.jsonl"}`
	for _, c := range []struct {
		events []string
		want   string
	}{
		{[]string{loaded}, "job: no process is recorded yet\n"},
		{[]string{loaded, begin}, "job, process 1 (Python): its main thread is sampled\n"},
		{[]string{loaded, begin, trace, host}, "job, process 1 (Python): the samples of its main thread are in samples-1.jsonl\n"},
	} {
		if err := os.WriteFile(filepath.Join(dir, "hook.jsonl"), []byte(strings.Join(c.events, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		state := record.ReadWatched(dir)
		if got := hookTable("job", &state); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
