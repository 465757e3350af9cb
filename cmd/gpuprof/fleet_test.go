//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

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
	ranges, err := shippedRanges()
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 10 {
		card := madeUp("cuda:0", 4e12*(1+0.001*float64(rank%3)))
		card.UUID = fmt.Sprintf("GPU-%d", rank)
		if rank == 7 {
			card = madeUp("cuda:0", 3.4e12)
			card.Condition.Foreign = new(int)
			*card.Condition.Foreign = 2
		}
		var out bytes.Buffer
		a := &app{ctx: t.Context(), stdout: &out, stderr: &out, quiet: true}
		sink := &rankSink{a, launch.Place{Launcher: "srun", Rank: rank, World: 10, Node: fmt.Sprint("node", rank)}, b, time.Unix(1000, 0)}
		err := (&doctorCmd{Format: "json"}).conclude(a, measured{cards: []health.Card{card}}, ranges, nil, sink)
		if exitCode(err) != exitOK {
			t.Fatalf("a GPU alone: %v", err)
		}
	}
	var out, said bytes.Buffer
	if code := gpuprofRan(t, &out, &said, "fleet", dir, "--format", "json"); code != exitRegression {
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
	if code := gpuprofRan(t, &out, &said, "fleet", dir); code != exitRegression || !strings.Contains(out.String(), "copy of cuda:0 of rank 7 on node7: 3.40 TB/s, 15") {
		t.Errorf("exit code %d:\n%s", code, &out)
	}
}
