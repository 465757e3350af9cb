//go:build !race

// Under the race detector one goroutine that reads files, writes pages and looks through them
// takes ten times as long; what reads in goroutines is tested there in packages of its own.

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/internal/compare/baseline"
)

// TestResultsNameNoHome: nothing that is written to be shared says in whose home its
// inputs were, and no baseline on which machine, unless it is asked to.
func TestResultsNameNoHome(t *testing.T) {
	trace, err := os.ReadFile(filepath.Join("..", "..", "testdata", "traces", "item-fires.json"))
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(t.TempDir(), "alice")
	rec := filepath.Join(home, "recording")
	if err := os.MkdirAll(rec, 0o755); err != nil {
		t.Fatal(err)
	}
	old, now := filepath.Join(home, "old.json"), filepath.Join(home, "new.json")
	madeRun(t, old, "off", 1e-3)
	madeRun(t, now, "on", 1e-3)
	telemetry := `{"schema_version":"1.0.0","command":["python","train.py","--hf-token","S3CRET"],"cpus":2,"traces":["` + rec + `/trace-1.json"]}`
	for name, text := range map[string]string{"trace-1.json": string(trace), "trace-2.json": string(trace[:len(trace)/2]), "telemetry.json": telemetry} {
		if err := os.WriteFile(filepath.Join(rec, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, args := range [][]string{
		{"analyze", rec}, {"analyze", filepath.Join(rec, "trace-1.json")}, {"analyze", "--compare", rec, rec},
		{"compare", old, now}, {"gate", old, now}, {"gate", filepath.Join(rec, "trace-1.json"), "--max", "sync_points=0"}, {"compare", filepath.Join(rec, "trace-1.json"), filepath.Join(rec, "trace-1.json")},
	} {
		var out, errs bytes.Buffer
		args = append(args, "-o", "out.json", "-o", "out.html", "-o", "out.md", "-o", "out.txt", "--force")
		if code := runCommand(t.Context(), &wired, args, &out, &errs); code == cli.ExitUsage || code == cli.ExitFailed {
			t.Fatalf("%v: exit code %d: %s", args, code, &errs)
		}
		for _, name := range []string{"out.json", "out.html", "out.md", "out.txt"} {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, bad := range []string{home, "alice", "S3CRET"} {
				if at := strings.Index(string(b), bad); at >= 0 {
					t.Errorf("%.40q: %s says %q", args, name, b[max(0, at-80):at+len(bad)])
				}
			}
		}
	}
	store := "store"
	if code := runCommand(t.Context(), &wired, []string{"history", "baseline", "--dir", store, "add", old, "--command", "train --api-key S3CRET https://me:S3CRET@host/"}, &bytes.Buffer{}, &bytes.Buffer{}); code != cli.ExitOK {
		t.Fatalf("exit code %d", code)
	}
	found, err := filepath.Glob(filepath.Join(store, "*", "*.json"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	var kept baseline.Baseline
	if err := json.Unmarshal(b, &kept); err != nil {
		t.Fatal(err)
	}
	if s := kept.Sessions[0]; s.Machine != "" || strings.Contains(string(b), `"`+host+`"`) || strings.Contains(string(b), "S3CRET") || s.Command != "train --api-key *** https://***@host/" {
		t.Errorf("machine %q, command %q", s.Machine, s.Command)
	}
}
