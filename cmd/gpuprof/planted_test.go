//go:build !race

// Processes are started, and the race detector sees nothing of them.

package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/cli"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/gate"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/judge"
	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
)

// plantKind puts a file of a kind in the place of another one. listeners are closed with the test.
func plantKind(t *testing.T, kind, path string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(path), os.MkdirAll(filepath.Dir(path), 0o700)); err != nil {
		t.Fatal(err)
	}
	var err error
	switch kind {
	case "pipe":
		err = syscall.Mkfifo(path, 0o600)
	case "link to a pipe":
		if err = os.Symlink(path+".target~", path); err == nil {
			err = syscall.Mkfifo(path+".target~", 0o600)
		}
	case "socket":
		// The name of a socket is bound from inside its folder: an address has 108 bytes.
		short, made := os.MkdirTemp("", "s") //nolint:usetesting // the name of t.TempDir is as long as that of the test
		if made != nil {
			t.Fatal(made)
		}
		t.Cleanup(func() { _ = os.RemoveAll(short) })
		if err = os.Symlink(filepath.Dir(path), filepath.Join(short, "d")); err == nil {
			var l *net.UnixListener
			if l, err = net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(short, "d", filepath.Base(path))}); err == nil {
				l.SetUnlinkOnClose(false)
				t.Cleanup(func() { _ = l.Close() })
			}
		}
	case "device":
		err = os.Symlink("/dev/zero", path)
	case "loop":
		err = os.Symlink(filepath.Base(path), path)
	case "folder":
		err = os.Mkdir(path, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// plantable are the folders that verbs read, with files that other programs might have put there.
var plantable = []string{
	"rec/trace-1.json", "rec/telemetry.json", "rec/hook.jsonl", "rec/cuda.jsonl", "rec/cuda.control", "rec/cuda.config", "rec/cuda-77.gpt", "rec/trace-77.gpt",
	"rec/gpuprof-cuda.so", "mem/snapshot-1.pickle", "jax/plugins/profile/2026/a.xplane.pb", "fleet/run/000000-0-0123456789ab.json.zst", "hook/status",
	"baselines/other/x.json", "store/v1/p/b/c/2026/01/20260101T000000Z-abcdef123456-0011223344556677.json.zst",
	"repo/.git/gpuprof-bisect.json", "repo/.git/gpuprof-bisect.json.lock", "tune.json", "baselines/nvidia/gpu-check/summary.json",
}

// plantedVerb is a verb that reads such folders, the exit code that it ends with, and a part of
// what it prints on standard error, "" any.
type plantedVerb struct {
	dir, args string
	env       []string
	code      int
	says      string
}

var plantedVerbs = []plantedVerb{
	{args: "history --store store", code: cli.ExitFailed, says: "objects can be used"},
	{args: "baseline list --dir baselines", code: cli.ExitUsage, says: "reading baseline "},
	{args: "baseline show x --dir baselines", code: cli.ExitUsage, says: "reading baseline "},
	{args: "gate auto run.json --dir baselines", code: cli.ExitUsage, says: "reading baseline "},
	{args: "run squares --device host --samples 5 --baseline auto --baseline-dir baselines", code: cli.ExitUsage, says: "reading baseline "},
	{args: "analyze rec", code: cli.ExitUsage, says: "reading trace rec"},
	{args: "analyze --compare rec run.json", code: cli.ExitUsage, says: "reading trace rec"},
	{args: "analyze mem", code: cli.ExitUsage, says: "reading trace mem"},
	{args: "analyze jax", code: cli.ExitUsage, says: "reading trace jax"},
	{args: "fleet fleet", code: cli.ExitFailed, says: "merging fleet: "},
	{args: "watch --once rec", code: -1},
	{args: "record rec", code: cli.ExitUsage, says: "no process there has an armed recorder"},
	{args: "tune squares --device host --resume tune.json", code: cli.ExitUsage, says: "reading tuning result tune.json"},
	{dir: "repo", args: "bisect --show", code: cli.ExitUsage, says: "reading the search "},
	{dir: "repo", args: "bisect --resume", code: cli.ExitUsage, says: "gpuprof-bisect.json"},
	{args: "gate --plan squares --device host", code: cli.ExitUsage, says: "the noise of"},
	{args: "run squares --device host --warmup 2 --samples 30 -o again.json"}, // the caches are a courtesy
	{args: "check squares --device host"},
	{args: "doctor", code: -1},
	{args: "report run.json -o rec/telemetry.json", code: cli.ExitUsage, says: "not an ordinary file"},
	{args: "history add run.json --store store"},
	{args: "baseline add run.json --dir baselines", code: -1},
	{args: "run -o rec --force --no-analyze -- true", env: []string{"GPUPROF_HOOK=hook"}, code: -1},
}

// Whatever is planted in a folder that a verb reads, the verb ends: with an error that names it,
// or without it. No verb waits for a pipe, reads a device or follows links for ever.
func TestPlantedFiles(t *testing.T) {
	t.Setenv("GPUPROF_TEST_WORKLOAD", "1")
	good := t.TempDir()
	ran := func(dir, args string, env ...string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.GiveUp)
		defer cancel()
		cmd := exec.CommandContext(ctx, selfPath(t), strings.Fields(args)...)
		cmd.Args[0], cmd.Dir = "gpuprof", dir
		home := filepath.Dir(dir)
		if filepath.Base(dir) != "repo" {
			home = dir
		}
		cmd.Env = append(os.Environ(), append([]string{"HOME=" + home, "XDG_CACHE_HOME=" + filepath.Join(home, "cache"), "TMPDIR=" + filepath.Join(home, "tmp")}, env...)...)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		err := cmd.Run()
		if ctx.Err() != nil {
			t.Fatalf("gpuprof %s does not end: %s", args, &said)
		}
		if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), said.String()
	}
	if err := errors.Join(os.Mkdir(filepath.Join(good, "tmp"), 0o700), os.MkdirAll(filepath.Join(good, "repo"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, args := range []string{
		"run squares --device host --warmup 2 --samples 30 -o run.json", "baseline add run.json --dir baselines", "history add run.json --store store", "history --store store",
	} {
		if code, said := ran(good, args); code != cli.ExitOK {
			t.Fatalf("gpuprof %s: %d, %s", args, code, said)
		}
	}
	git := exec.CommandContext(t.Context(), "git", "init", "--quiet", filepath.Join(good, "repo"))
	if out, err := git.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	places := slices.Clone(plantable)
	for _, top := range []string{"cache", "store", "baselines"} {
		err := filepath.WalkDir(filepath.Join(good, top), func(path string, d fs.DirEntry, err error) error {
			if rel, _ := filepath.Rel(good, path); err == nil && d.Type().IsRegular() {
				places = append(places, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	machine, command := (&judge.Builds{Args: []string{"squares"}, Device: "host", MinTime: 2 * time.Second}).Runner(&cli.App{Tables: wired.tables()})
	t.Setenv("XDG_CACHE_HOME", filepath.Join(good, "cache"))
	noise, err := gate.NoiseFile(machine, command)
	if err != nil {
		t.Fatal(err)
	}
	rel, err := filepath.Rel(good, noise)
	if err != nil {
		t.Fatal(err)
	}
	places = append(places, rel)
	for i, kind := range []string{"pipe", "link to a pipe", "socket", "device", "loop", "folder"} {
		if !nightly && i%2 != 0 {
			continue // by day a pipe, a socket and a loop
		}
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			for _, place := range places {
				plantKind(t, kind, filepath.Join(dir, place))
			}
			for _, v := range plantedVerbs {
				code, said := ran(filepath.Join(dir, v.dir), v.args, v.env...)
				if kind == "folder" { // it is looked into like any other folder
					continue
				}
				if v.code >= 0 && code != v.code || !strings.Contains(said, v.says) {
					t.Errorf("gpuprof %s: exit code %d, %s", v.args, code, said)
				}
			}
		})
	}
}
