package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every kernels_gen.go has the parameters of the .cu files beside it.
func TestFilesAreFresh(t *testing.T) {
	source, err := os.ReadFile("../../../workloads/device/args.go")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^//go:generate go run ../../scripts/build/kernelargs (.*)$`).FindSubmatch(source)
	if line == nil {
		t.Fatal("workloads/device/args.go has no line that generates the files")
	}
	for _, dir := range strings.Fields(string(line[1])) {
		dir = filepath.Join("..", "..", "..", "workloads", "device", dir)
		want, err := generateFile(dir)
		if err != nil {
			t.Fatal(err)
		}
		have, err := os.ReadFile(filepath.Join(dir, "kernels_gen.go"))
		if err != nil {
			t.Fatal(err)
		}
		if string(have) != string(want) {
			t.Errorf("%s/kernels_gen.go is stale: run go generate ./workloads/device", dir)
		}
	}
}

func TestParse(t *testing.T) {
	const text = `
#define WIDTH int width
#define OF(NAME, OP) \
  extern "C" __global__ void NAME(const float *x, float *y, int n) { y[0] = OP x[0]; }
// extern "C" __global__ void old(float *x, int n) {}
extern "C" __global__ void __launch_bounds__(256, 2) scale_by(const float *__restrict__ x, unsigned char *range,
                                                            WIDTH, float by, int n) {}
OF(negate, -)
`
	all, err := parseKernels("a.cu", text)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].name != "of" || all[1].name != "scale_by" {
		t.Fatalf("kernels %v", all)
	}
	got, err := writeFile("a", all)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"package a\n", "scaleByArgs = scaleByParams[device.Ref, device.Num, device.Real]", "x, rangeOf B\n", "width      I\n", "by         F\n", "ofView = ofParams["} {
		if !strings.Contains(strings.Join(strings.Fields(string(got)), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// Kernels with equal lists share a struct, and kernels with other names of parameters do not.
func TestSharedLists(t *testing.T) {
	all, err := parseKernels("a.cu", `extern "C" __global__ void a(float *x, int n) {}
extern "C" __global__ void b(float *x, int n) {}
extern "C" __global__ void c(float *y, int n) {}`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := writeFile("p", all)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(got), "struct {"); n != 2 {
		t.Errorf("%d structs, want 2:\n%s", n, got)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a double":           {`extern "C" __global__ void k(double x, int n) {}`, `parameter "double x" is no pointer, int or float`},
		"a number of items":  {`extern "C" __global__ void k(int n, float *x) {}`, "its last parameter, x, is not the number of items"},
		"a nameless pointer": {`extern "C" __global__ void k(float *, int n) {}`, `parameter "float *" is no pointer`},
	} {
		if _, err := parseKernels("a.cu", tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", name, err, tt.want)
		}
	}
}
