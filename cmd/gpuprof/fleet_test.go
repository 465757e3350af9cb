//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/doctor"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/bucket"
	"github.com/gpuprof/gpuprof/internal/fleet"
	"github.com/gpuprof/gpuprof/internal/health"
	"github.com/gpuprof/gpuprof/internal/launch"
)

// TestFleetOfNodes: the objects that doctor --bench leaves on ten nodes name the GPU that
// is slow beside the fleet, which its own node could not know of.
func TestFleetOfNodes(t *testing.T) {
	dir := t.TempDir()
	b := &bucket.Folder{Dir: dir, Flush: func(*os.File) error { return nil }}
	ranges, err := doctor.ShippedRanges()
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 10 {
		card := testkit.MadeUpGPU("cuda:0", 4e12*(1+0.001*float64(rank%3)))
		card.UUID = fmt.Sprintf("GPU-%d", rank)
		if rank == 7 {
			card = testkit.MadeUpGPU("cuda:0", 3.4e12)
			card.Condition.Foreign = new(int)
			*card.Condition.Foreign = 2
		}
		var out bytes.Buffer
		a := &cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: &out, Stderr: &out, Quiet: true}
		sink := &cli.RankSink{App: a, Place: launch.Place{Launcher: "srun", Rank: rank, World: 10, Node: fmt.Sprint("node", rank)}, Bucket: b, Started: time.Unix(1000, 0)}
		err := (&doctor.Cmd{Format: "json"}).Conclude(a, doctor.Measured{Cards: []health.Card{card}}, ranges, nil, sink)
		if cli.ExitCode(err) != cli.ExitOK {
			t.Fatalf("a GPU alone: %v", err)
		}
	}
	var out, said bytes.Buffer
	if code := gpuprofRan(t, &out, &said, "fleet", dir, "--format", "json"); code != cli.ExitRegression {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	var r fleet.Report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Off) != 1 || r.Off[0].Rank != 7 || r.Off[0].Metric != "copy" || r.Off[0].Node != "node7" || !strings.Contains(r.Off[0].Cause, "foreign process") || r.Off[0].Siblings != 10 {
		t.Errorf("%+v", r.Off)
	}
	out.Reset()
	if code := gpuprofRan(t, &out, &said, "fleet", dir); code != cli.ExitRegression || !strings.Contains(out.String(), "copy of cuda:0 of rank 7 on node7: 3.40 TB/s, 15") {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
}

// left writes the objects that doctor --bench leaves on nodes, each with one GPU whose copies
// have this rate, and returns the folder.
func left(t *testing.T, copies map[int]float64) string {
	t.Helper()
	dir := t.TempDir()
	b := &bucket.Folder{Dir: dir, Flush: func(*os.File) error { return nil }}
	for rank, node := range slices.Sorted(maps.Keys(copies)) {
		card := testkit.MadeUpGPU("cuda:0", copies[node])
		card.UUID = fmt.Sprintf("GPU-%d", node)
		a := &cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: io.Discard, Stderr: io.Discard, Quiet: true}
		sink := &cli.RankSink{App: a, Place: launch.Place{Launcher: "srun", Rank: rank, World: len(copies), Node: fmt.Sprint("node", node)}, Bucket: b, Started: time.Unix(1000, 0)}
		if err := (&doctor.Cmd{Format: "json"}).Conclude(a, doctor.Measured{Cards: []health.Card{card}}, nil, nil, sink); cli.ExitCode(err) != cli.ExitOK {
			t.Fatal(err)
		}
	}
	return dir
}

// TestFleetAgain: --again prints the node that is off and a healthy one as launchers take
// them, and a second folder takes back what it does not confirm.
func TestFleetAgain(t *testing.T) {
	all := map[int]float64{}
	for node := range 10 {
		all[node] = 4e12 * (1 + 0.001*float64(node%3))
	}
	all[7], all[3] = 3.4e12, 3.2e12
	first := left(t, all)
	var out, said bytes.Buffer
	if code := gpuprofRan(t, &out, &said, "fleet", first, "--again"); code != cli.ExitRegression {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	hosts := strings.Split(strings.TrimSuffix(out.String(), "\n"), ",")
	if len(hosts) != 4 || hosts[0] != "node3" || hosts[1] != "node7" || !strings.Contains(said.String(), "off: node3, node7; healthy: ") {
		t.Errorf("%q, and said %q", out.String(), said.String())
	}
	second := left(t, map[int]float64{7: 4e12, 3: 3.2e12, 1: 4e12, 5: 4e12})
	out.Reset()
	if code := gpuprofRan(t, &out, &said, "fleet", first, second); code != cli.ExitRegression || !strings.Contains(out.String(), "copy of cuda:0 of rank 3 on node3: 3.20 TB/s") || !strings.Contains(out.String(), "copy of cuda:0 of rank 7 on node7 was off, and is not in") {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
	out.Reset()
	said.Reset()
	if code := gpuprofRan(t, &out, &said, "fleet", first, left(t, map[int]float64{7: 4e12, 3: 4e12, 1: 4e12, 5: 4e12}), "--again"); code != cli.ExitOK || out.Len() > 0 || !strings.Contains(said.String(), "no node is off") {
		t.Errorf("exit code %d: %q, said %q", code, &out, &said)
	}
}

// TestAgainstReference: what fleet -o writes judges a GPU that has no other beside it, and
// files that can judge none are refused before anything is measured.
func TestAgainstReference(t *testing.T) {
	all := map[int]float64{}
	for node := range 10 {
		all[node] = 4e12 * (1 + 0.001*float64(node%3))
	}
	t.Chdir(t.TempDir())
	var out, said bytes.Buffer
	if code := gpuprofRan(t, &out, &said, "fleet", left(t, all), "-o", "reference.json"); code != cli.ExitOK {
		t.Fatalf("exit code %d: %s", code, &said)
	}
	for _, v := range []struct {
		copies float64
		code   int
		says   string
	}{{4e12, cli.ExitOK, "every figure is within its limits"}, {3.6e12, cli.ExitRegression, "3.60 TB/s, 10 % worse than the median of the reference, 4.00 TB/s"}} {
		out.Reset()
		c := &doctor.Cmd{Format: "table", Against: "reference.json"}
		a := &cli.App{Tables: wired.tables(), Ctx: t.Context(), Stdout: &out, Stderr: &out}
		ref, err := c.Reference(a)
		if err != nil {
			t.Fatal(err)
		}
		err = c.Conclude(a, doctor.Measured{Cards: []health.Card{testkit.MadeUpGPU("cuda:0", v.copies)}, Reference: ref}, nil, nil, nil)
		if cli.ExitCode(err) != v.code || !strings.Contains(out.String(), v.says) {
			t.Errorf("%g: %v\n%s", v.copies, err, &out)
		}
	}
	if err := os.WriteFile("other.json", []byte(`{"kind":"fleet","schema_version":"1.1.0","verdict":"even"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--bench", "--against", "nowhere.json"}, cli.ExitUsage, "nowhere.json"},
		{[]string{"--bench", "--against", "other.json"}, cli.ExitFailed, "it is a report without figures of GPUs; give what gpuprof fleet -o FILE.json wrote"},
		{[]string{"--against", "reference.json"}, cli.ExitUsage, "--against is of --bench"},
		{[]string{"--check", "--against", "reference.json"}, cli.ExitUsage, "--against is of --bench"},
	} {
		said.Reset()
		if code := gpuprofRan(t, &out, &said, append([]string{"doctor"}, v.args...)...); code != v.code || !strings.Contains(said.String(), v.says) {
			t.Errorf("%v ends with %d: %s", v.args, code, &said)
		}
	}
}
