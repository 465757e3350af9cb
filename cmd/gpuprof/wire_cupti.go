package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gpuprof/gpuprof/internal/dynlib"
)

// envAsk is the environment variable with the path of a libcupti. A process started with it loads that library, prints
// the version of its interface and ends. A separate process asks, because an unfit library may crash the process that
// loads it.
const envAsk = "GPUPROF_ASK_CUPTI"

// askWithin limits the time of the process that loads a libcupti.
const askWithin = 10 * time.Second

// answerVersion prints the interface version of the libcupti that envAsk names; false if envAsk is not set.
func answerVersion(getenv func(string) string, w io.Writer) bool {
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

// asksCUPTI returns askCUPTI; nil if this build cannot load libraries.
func asksCUPTI() func(path string) (int, error) {
	if dynlib.Unable != "" {
		return nil
	}
	return askCUPTI
}

// askCUPTI returns the interface version of a libcupti. Another process, started for this, loads the library.
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

// driverCUDA returns the driver's CUDA release as 1000 * major + 10 * minor, for example 12080 for 12.8; 0 without a
// driver.
func (w *wiring) driverCUDA() int {
	major, minor, _ := strings.Cut(w.findDriver().CUDA, ".")
	a, err1 := strconv.Atoi(major)
	b, err2 := strconv.Atoi(minor)
	if err1 != nil || err2 != nil {
		return 0
	}
	return a*1000 + b*10
}
