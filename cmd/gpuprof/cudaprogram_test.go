package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gpuprof/gpuprof/cmd/gpuprof/internal/testkit"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/ptx"
)

// builtCUDAProgram is the C program of the recorder's tests and the PTX that it runs, made once.
var builtCUDAProgram = sync.OnceValues(func() (program [2]string, err error) {
	dir, err := os.MkdirTemp("", "gpuprof-test-")
	if err != nil {
		return program, err
	}
	program[0] = filepath.Join(dir, "cuda_program")
	if _, err := exec.Command("gcc", "-O1", "-o", program[0], "../../internal/record/testdata/cuda_program.c", "-ldl").Output(); err != nil {
		return program, err
	}
	packed, err := os.ReadFile("../../workloads/device/cuda/null.ptx.zst")
	if err != nil {
		return program, err
	}
	program[1], err = ptx.Text(&device.Kernel{PTX: string(packed)})
	return program, err
})

// cudaProgram runs `cudaprogram RELEASE FOLDER`: PROGRAM is a program on the simulated driver then, CUPTI a
// stand-in of the release; "until" lets PROGRAM run until a recording into FOLDER has ended.
func cudaProgram(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: cudaprogram RELEASE FOLDER")
	}
	program, err := builtCUDAProgram()
	ts.Check(err)
	t := ts.Value(testKey{}).(testing.TB)
	ts.Setenv("PROGRAM", program[0])
	ts.Setenv("TEST_PTX", program[1])
	ts.Setenv("TEST_KERNEL", "null")
	ts.Setenv("TEST_UNTIL", filepath.Join(ts.MkAbs(args[1]), "cuda.jsonl"))
	ts.Setenv("CUPTI", sim.CUPTI(t, args[0]))
	ts.Setenv("LD_LIBRARY_PATH", filepath.Dir(sim.Library(t)))
}

// testKey is under what a script finds its test.
type testKey struct{}

// await runs `await FILE TEXT`: it waits until another process has written the text there.
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: await FILE TEXT")
	}
	for until := time.Now().Add(testkit.GiveUp); time.Now().Before(until); time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && strings.Contains(string(text), args[1]) {
			return
		}
	}
	ts.Fatalf("%s never says %q", args[0], args[1])
}
