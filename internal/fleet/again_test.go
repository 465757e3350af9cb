package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/health"
)

// checked are the objects of nodes, by rank, whose GPUs have these rates of copies.
func checked(t *testing.T, nodes map[int][]float64, edit func(rank int, r *health.Report)) *Job {
	t.Helper()
	b := folder(t)
	ranks := slices.Sorted(func(yield func(int) bool) {
		for n := range nodes {
			if !yield(n) {
				return
			}
		}
	})
	for i, n := range ranks {
		r := healthOf(n, nodes[n]...)
		if edit != nil {
			edit(n, r)
		}
		p := place(i, len(nodes))
		p.Node = fmt.Sprint("n", n)
		leave(t, b, p, document.Health, r)
	}
	job, err := Gather(t.Context(), b, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// rates are so many healthy nodes of four GPUs, with the given ones slower by a share.
func rates(nodes []int, slow map[int]float64) map[int][]float64 {
	out := map[int][]float64{}
	for _, n := range nodes {
		for i := range 4 {
			out[n] = append(out[n], 1e12*(1+0.001*float64((n+i)%3))*(1-slow[n]))
		}
	}
	return out
}

func upTo(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

// TestAgain: a second measurement of the nodes that are off, beside as many healthy ones,
// takes back what it does not confirm, and a node that is slow in both stays off although
// it is half of the second one.
func TestAgain(t *testing.T) {
	first := checked(t, rates(upTo(8), map[int]float64{2: 0.1, 5: 0.2}), nil)
	r, err := Merge(first, Options{})
	if err != nil {
		t.Fatal(err)
	}
	off, healthy := r.Again()
	if !slices.Equal(off, []string{"n2", "n5"}) || len(healthy) != 2 || slices.ContainsFunc(healthy, func(n string) bool { return slices.Contains(off, n) }) {
		t.Fatalf("off %v, healthy %v", off, healthy)
	}
	narrow := func(rank int, r *health.Report) {
		if rank == 0 {
			r.Off = []health.Off{{Device: "cuda:1", Metric: "link_width", Unit: "lanes", Value: 8, Expected: 16, Worse: 0.5, Against: "itself", Cause: "8 lanes of 16"}}
		}
	}
	for name, c := range map[string]struct {
		first, second *Job
		off           []string // nodes
		verdict       Verdict
		says          string
	}{
		"only one is confirmed":         {first, checked(t, rates([]int{1, 2, 5, 6}, map[int]float64{5: 0.2}), nil), []string{"n5"}, Uneven, "copy of 4 GPUs of rank 2 on n2 was off, and is not in "},
		"none is":                       {first, checked(t, rates([]int{1, 2, 5, 6}, nil), nil), nil, Even, "n5 was off"},
		"both of two nodes are":         {first, checked(t, rates([]int{1, 2, 5, 6}, map[int]float64{2: 0.1, 5: 0.2}), nil), []string{"n2", "n5"}, Uneven, ""},
		"no healthy node beside them":   {first, checked(t, rates([]int{2, 5}, map[int]float64{2: 0.1, 5: 0.2}), nil), []string{"n2", "n5"}, Uneven, ""},
		"a little off is not":           {first, checked(t, rates([]int{1, 2, 5, 6}, map[int]float64{2: 0.03, 5: 0.2}), nil), []string{"n5"}, Uneven, ""},
		"one was not measured again":    {first, checked(t, rates([]int{1, 2}, map[int]float64{2: 0.1}), nil), []string{"n2", "n5"}, Uneven, "copy of 4 GPUs of rank 5 on n5 stays off: "},
		"the whole measurement is slow": {first, checked(t, rates([]int{1, 2, 5, 6}, map[int]float64{1: 0.3, 2: 0.3, 5: 0.44, 6: 0.3}), nil), []string{"n5"}, Uneven, ""},
		"another one is off":            {first, checked(t, rates([]int{1, 2, 5, 6}, map[int]float64{2: 0.1, 5: 0.2, 6: 0.3}), nil), []string{"n2", "n5"}, Uneven, "copy of 4 GPUs of rank 3 on n6 is off in "},
		"a fault by the GPU's account":  {first, checked(t, rates([]int{0, 1, 2, 5}, map[int]float64{5: 0.2}), narrow), []string{"n0", "n5"}, Uneven, ""},
		"such a fault, repaired":        {checked(t, rates(upTo(8), nil), narrow), checked(t, rates([]int{0, 1}, nil), nil), nil, Even, "link_width of cuda:1 of rank 0 on n0 was off, and is not in "},
		"such a fault, not repaired":    {checked(t, rates(upTo(8), nil), narrow), checked(t, rates([]int{0, 1}, nil), narrow), []string{"n0"}, Uneven, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Merge(c.first, Options{Again: []*Job{c.second}})
			if err != nil {
				t.Fatal(err)
			}
			var nodes []string
			for _, o := range r.Off {
				nodes = append(nodes, o.Node)
			}
			slices.Sort(nodes)
			if !slices.Equal(slices.Compact(nodes), c.off) || r.Verdict != c.verdict || !strings.Contains(strings.Join(r.Notes, "\n"), c.says) {
				t.Errorf("off %v, %s %s; notes %q", nodes, r.Verdict, r.Reason, r.Notes)
			}
		})
	}
}

// TestAgainRefused: a second folder that says nothing of the first one, or is torn.
func TestAgainRefused(t *testing.T) {
	first := checked(t, rates(upTo(8), map[int]float64{2: 0.1}), nil)
	runs := folder(t)
	leave(t, runs, place(0, 1), document.Run, runOf(0.01, nil))
	other, err := Gather(t.Context(), runs, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		first, second *Job
		says          string
	}{{first, other, "holds no health report"}, {other, first, "holds no health report"}, {first, first, "they are one folder"}, {first, &Job{where: "empty"}, "merging empty: it holds no object"}} {
		if _, err := Merge(c.first, Options{Again: []*Job{c.second}}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %q", err, c.says)
		}
	}
	second := checked(t, rates([]int{2, 3}, map[int]float64{2: 0.1}), nil)
	second.Missing, second.World = []int{2}, 3
	for allow, want := range map[bool]Verdict{false: Broken, true: Uneven} {
		if r, err := Merge(first, Options{Again: []*Job{second}, AllowMissing: allow}); err != nil || r.Verdict != want {
			t.Errorf("%v %+v", err, r)
		}
	}
}

// TestHosts: nodes that a shell could take for something else are no part of a list, and a
// healthy node has GPUs of the same kind.
func TestHosts(t *testing.T) {
	job := checked(t, rates(upTo(16), map[int]float64{2: 0.1, 3: 0.1}), func(rank int, r *health.Report) {
		for i := range r.Devices {
			if rank >= 8 {
				r.Devices[i].Name = "L4" // n10 to n15 come before n2 in the list
			}
		}
	})
	for _, o := range job.Objects {
		if o.Node == "n3" {
			o.Node = "n3;reboot"
		}
	}
	r, err := Merge(job, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if off, healthy := r.Again(); !slices.Equal(off, []string{"n2"}) || len(healthy) != 1 || !slices.Contains([]string{"n0", "n1", "n4", "n5", "n6", "n7"}, healthy[0]) {
		t.Errorf("off %v, healthy %v", off, healthy)
	}
}

// TestReference: what a fleet reaches goes through its document, and one GPU alone is judged
// by it as it would be as a part of the fleet.
func TestReference(t *testing.T) {
	r, err := Merge(checked(t, rates(upTo(8), nil), nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var ref Report
	if err := document.Decode(text, "reference.json", &ref, document.Fleet); err != nil {
		t.Fatal(err)
	}
	if err := ref.UsableReference("reference.json"); err != nil {
		t.Fatal(err)
	}
	if len(ref.Reference) != 2 || ref.Reference[0].Metric != "copy" || ref.Reference[0].GPUs != 32 || ref.Reference[1].Unit != "s" || math.Abs(float64(ref.Reference[0].Median)/1.001e12-1) > 1e-9 || math.Abs(float64(ref.Reference[1].Median)/5e-6-1) > 1e-9 {
		t.Fatalf("%+v", ref.Reference)
	}
	card := func(copies, launch float64, edit func(*health.Card)) health.Card {
		c := healthOf(0, copies).Devices[0]
		c.Metrics[1].Value = gpuprof.Number(launch)
		if edit != nil {
			edit(&c)
		}
		return c
	}
	for name, c := range map[string]struct {
		card health.Card
		off  []string
		says string
		has  bool
	}{
		"healthy":          {card(0.99e12, 5e-6, nil), nil, "", true},
		"slow copies":      {card(0.9e12, 5e-6, nil), []string{"copy"}, "", true},
		"4 %":              {card(0.96e12, 5e-6, nil), nil, "", true},
		"slow launches":    {card(1e12, 9e-6, nil), []string{"launch"}, "", true},
		"fast launches":    {card(1e12, 1e-6, nil), nil, "", true},
		"unsteady":         {card(0.9e12, 5e-6, func(c *health.Card) { c.Metrics[0].Second = 0.7e12 }), nil, "its two best rounds differ by 29 %", true},
		"another driver":   {card(0.9e12, 5e-6, func(c *health.Card) { c.Facts = map[string]string{"driver": "580"} }), []string{"copy"}, "cuda:0: the driver is 580, of the reference not known", true},
		"another limit":    {card(0.9e12, 5e-6, func(c *health.Card) { c.Condition.PowerLimitW = 400 }), []string{"copy"}, "the power limit is 400 W, of the reference 0 W", true},
		"another GPU":      {card(0.9e12, 5e-6, func(c *health.Card) { c.Name = "L4" }), nil, "the reference has no GPU of its name (L4)", false},
		"a MIG instance":   {card(0.9e12, 5e-6, func(c *health.Card) { c.Condition.MIG = true }), nil, "no GPU of its name", false},
		"nothing measured": {card(math.NaN(), math.NaN(), nil), nil, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			cards := []health.Card{c.card}
			found, notes := ref.Beside(cards)
			report, err := health.Judge(found, cards, nil, by())
			if err != nil {
				t.Fatal(err)
			}
			var off []string
			for _, o := range report.Off {
				off = append(off, o.Metric)
				if want := map[string]float64{"copy": 1.001e12, "launch": 5e-6}[o.Metric]; o.Against != "reference" || math.Abs(float64(o.Expected)/want-1) > 1e-9 {
					t.Errorf("%+v", o)
				}
			}
			if !slices.Equal(off, c.off) || !strings.Contains(strings.Join(notes, "\n"), c.says) || (report.Verdict == health.Unknown) == c.has {
				t.Errorf("off %v, %s; notes %q", off, report.Verdict, notes)
			}
		})
	}
	// Few siblings judge nothing, and a note says so.
	few, err := Merge(checked(t, rates([]int{0}, nil), nil), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if found, notes := few.Beside([]health.Card{card(0.9e12, 5e-6, nil)}); len(found) != 0 || len(notes) != 1 || !strings.Contains(notes[0], "too few to judge it by") {
		t.Errorf("%v %q", found, notes)
	}
	for name, harm := range map[string]func(*Report){
		"none": func(r *Report) { r.Reference = nil }, "no spread": func(r *Report) { r.Reference[0].Spread = 0 }, "not a number": func(r *Report) { r.Reference[0].Median = gpuprof.Number(math.NaN()) },
		"no GPU": func(r *Report) { r.Reference[0].GPUs = 0 },
	} {
		bad := Report{Reference: slices.Clone(ref.Reference)}
		harm(&bad)
		if err := bad.UsableReference("x.json"); err == nil || !strings.Contains(err.Error(), "x.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestTwiceOff: a figure that the node's own report has off and the fleet too is one finding.
func TestTwiceOff(t *testing.T) {
	job := checked(t, rates(upTo(8), map[int]float64{2: 0.1}), func(rank int, r *health.Report) {
		if rank == 2 {
			r.Off = []health.Off{{Device: "cuda:0", Metric: "copy", Unit: "B/s", Value: 0.9e12, Expected: 1e12, Worse: 0.1, Against: "reference"}}
		}
	})
	r, err := Merge(job, Options{})
	if err != nil || len(r.Off) != 1 || r.Off[0].Device != "4 of 4 GPUs" {
		t.Errorf("%v %+v", err, r.Off)
	}
}
