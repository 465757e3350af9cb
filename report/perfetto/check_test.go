package perfetto

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// tester is the interface common to both kinds of tests.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// written is a file as a viewer would read it.
type written struct {
	Version string `json:"schema_version"`
	Tool    struct{ Name string }
	Other   map[string]any `json:"otherData"`
	Devices []struct {
		ID           int
		Name         string
		ComputeMajor *int
		ComputeMinor *int
	} `json:"deviceProperties"`
	Events []entry `json:"traceEvents"`
}

type entry struct {
	Ph, Name, Cat string
	Pid           int
	Tid           *int
	Ts, Dur       *json.Number
	ID            *int64
	Bp            string
	Args          map[string]any
	start, end    int64
}

var micros = regexp.MustCompile(`^\d+\.\d{3}$`)

// ns reads a time exactly.
func ns(t tester, n json.Number) int64 {
	t.Helper()
	if !micros.MatchString(n.String()) {
		t.Fatalf("%s is not microseconds with three decimals", n)
	}
	v, err := strconv.ParseInt(strings.Replace(n.String(), ".", "", 1), 10, 64) // three decimals of a microsecond are ns
	if err != nil {
		t.Fatalf("%s is no number: %v", n, err)
	}
	return v
}

type row struct{ pid, tid int }

type begin struct {
	row
	at int64
}

// check decodes a file and holds it to the rules of the format: known phases,
// named rows, slices of a row in order and one inside the other or apart,
// arrows with both ends, from a slice's begin to a slice's begin and not back
// in time, counters in order.
func check(t tester, b []byte) *written {
	t.Helper()
	var w written
	dec := json.NewDecoder(bytes.NewReader(b))
	if err := dec.Decode(&w); err != nil {
		t.Fatalf("the file is not JSON: %v", err)
	}
	if w.Tool.Name != "gpuprof" || w.Version == "" {
		t.Errorf("the file does not say who wrote it: %q %q", w.Tool.Name, w.Version)
	}
	processes, threads := map[int]bool{}, map[row]bool{}
	open, last := map[row][]int64{}, map[row]int64{}
	begins := map[begin]bool{}
	starts, ends := map[int64]*entry{}, map[int64]*entry{}
	counters := map[string]int64{}
	for i := range w.Events {
		e := &w.Events[i]
		if e.Name == "" {
			t.Errorf("event %d has no name", i)
		}
		r := row{pid: e.Pid}
		if e.Tid != nil {
			r.tid = *e.Tid
		}
		if e.Ph != "M" {
			e.start = ns(t, *e.Ts)
		}
		switch e.Ph {
		case "M":
			switch e.Name {
			case "process_name":
				processes[e.Pid] = true
			case "thread_name":
				if threads[r] {
					t.Errorf("row %v has two names", r)
				}
				threads[r] = true
			}
		case "X":
			if !processes[r.pid] || !threads[r] {
				t.Errorf("%q is on row %v, which has no name", e.Name, r)
			}
			e.end = e.start + ns(t, *e.Dur)
			if e.start < last[r] {
				t.Errorf("%q begins before what stands before it", e.Name)
			}
			last[r] = e.start
			o := open[r]
			for len(o) > 0 && o[len(o)-1] <= e.start {
				o = o[:len(o)-1]
			}
			if len(o) > 0 && e.end > o[len(o)-1] {
				t.Errorf("%q [%d, %d) crosses what it begins in, which ends at %d", e.Name, e.start, e.end, o[len(o)-1])
			}
			open[r] = append(o, e.end)
			begins[begin{r, e.start}] = true
		case "s", "f":
			if e.ID == nil || e.Ph == "f" && e.Bp != "e" {
				t.Fatalf("arrow %+v lacks a part", e)
			}
			side := starts
			if e.Ph == "f" {
				side = ends
			}
			if side[*e.ID] != nil {
				t.Errorf("two %q have id %d", e.Ph, *e.ID)
			}
			side[*e.ID] = e
			if !begins[begin{r, e.start}] {
				t.Errorf("an end of arrow %d is at no slice's begin", *e.ID)
			}
		case "C":
			k := fmt.Sprint(e.Pid, e.Name)
			if at, ok := counters[k]; ok && e.start < at {
				t.Errorf("counter %q goes back in time", e.Name)
			}
			counters[k] = e.start
			if len(e.Args) != 1 {
				t.Errorf("counter %q has values %v", e.Name, e.Args)
			}
		default:
			t.Errorf("phase %q", e.Ph)
		}
	}
	for id, s := range starts {
		switch f := ends[id]; {
		case f == nil:
			t.Errorf("arrow %d has no end", id)
		case f.start < s.start || f.Pid == s.Pid || f.Cat != s.Cat:
			t.Errorf("arrow %d goes from %+v to %+v", id, s, f)
		}
	}
	if len(ends) != len(starts) {
		t.Errorf("%d arrows begin, %d end", len(starts), len(ends))
	}
	return &w
}
