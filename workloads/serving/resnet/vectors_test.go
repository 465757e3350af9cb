package resnet

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/device/host"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

func torchVectors(t *testing.T) []byte {
	t.Helper()
	file, err := os.ReadFile("../../../testdata/serving/vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func checkVectors(t *testing.T, d device.Device, file []byte) {
	t.Helper()
	res, err := CheckVectors(context.Background(), d, file, "vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res {
		if !r.Pass {
			t.Errorf("case %d %s: relative error %.3g over %.3g", r.Index, r.Precision, float64(r.RelativeError), r.Tolerance)
		}
	}
	if len(res) != 8 {
		t.Errorf("%d results, want two of each of four cases", len(res))
	}
	t.Log(res)
}

func TestVectorsOfTorch(t *testing.T) {
	checkVectors(t, workloadtest.Host(t, host.Options{Threads: 2}), torchVectors(t))
}

func TestCUDAVectors(t *testing.T) {
	checkVectors(t, workloadtest.Simulated(t, true, "cublas"), torchVectors(t))
}

func TestVectorsCanFail(t *testing.T) {
	const right = `{"cases":[{"kind":"resnet","image":1,"width":1,"blocks":[1],"classes":1,
"weights":{"conv1.weight":[0,0,0,0,1,0,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,0,1,0,0,0,0],"bn1.weight":[1],"bn1.bias":[0],"bn1.running_mean":[0],"bn1.running_var":[0.99999],
"layer1.0.conv1.weight":[0,0,0,0,0,0,0,0,0],"layer1.0.bn1.weight":[1],"layer1.0.bn1.bias":[0],"layer1.0.bn1.running_mean":[0],"layer1.0.bn1.running_var":[1],
"layer1.0.conv2.weight":[0,0,0,0,0,0,0,0,0],"layer1.0.bn2.weight":[1],"layer1.0.bn2.bias":[0],"layer1.0.bn2.running_mean":[0],"layer1.0.bn2.running_var":[1],
"fc.weight":[[2]],"fc.bias":[1]},"x":[[[1]],[[2]],[[3]]],"out":[[13]]}]}`
	d := workloadtest.Host(t, host.Options{Threads: 1})
	for _, tt := range []struct{ name, old, new, says string }{
		{"right", "", "", ""},
		{"another result", `[[13]]`, `[[13.01]]`, "fails"},
		{"a weight is missing", `"fc.bias":[1]`, `"fc.other":[1]`, "fc.bias is missing"},
		{"a weight is short", `"fc.weight":[[2]]`, `"fc.weight":[]`, "the weight of linear has 0 values"},
		{"a text of half a number", `"fc.weight":[[2]]`, `"fc.weight":"AAA="`, "base64"},
		{"an object", `[[13]]`, `[{}]`, "an object"},
		{"no number", `[[13]]`, `[true]`, "true stands"},
		{"no image", `[[[1]],[[2]],[[3]]]`, `[]`, "x has 0 values"},
		{"another kind", `"resnet"`, `"resnest"`, "unknown kind"},
		{"no width", `"width":1`, `"width":0`, "width=0"},
		{"no blocks", `"blocks":[1]`, `"blocks":[]`, "blocks="},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := strings.Replace(right, tt.old, tt.new, 1)
			res, err := CheckVectors(context.Background(), d, []byte(file), "x.json")
			switch {
			case tt.says == "" || tt.says == "fails":
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range res { // the variance is a float32, so float64 agrees to its rounding only
					if r.Precision == "float32" && r.Pass != (tt.says == "") {
						t.Errorf("%+v", r)
					}
				}
			case !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), tt.says):
				t.Errorf("error %v, want ErrInput with %q", err, tt.says)
			}
		})
	}
}
