package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuprof/gpuprof/internal/trace/read/kineto"
)

var deviceProperties = regexp.MustCompile(`(?s)"deviceProperties": \[.*?\],`)

// A trace that lost the device's properties on its way has the same findings about precision:
// the kernels' names tell for which devices they are compiled.
func TestPrecisionWithoutACapability(t *testing.T) {
	for rule, least := range map[string]string{"no-tf32": "8.0", "no-amp": "7.0", "tensor-cores": "8.0"} {
		file := filepath.Join(traceFolder, rule+"-fires.json")
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := deviceProperties.ReplaceAllString(string(raw), "")
		if text == string(raw) {
			t.Fatalf("%s has no properties to lose", file)
		}
		bare, err := kineto.Read(t.Context(), strings.NewReader(text), file, 0)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := analyse(t, recorded(t, file))
		got, _ := analyse(t, bare)
		if d := cmp.Diff(claimed(want), claimed(got)); d != "" {
			t.Errorf("%s: findings (-with properties +without):\n%s", rule, d)
		}
		f, whole := find(got, rule), find(want, rule)
		if f == nil || !strings.Contains(strings.Join(f.Caveats, "\n"), "compiled for compute capability "+least+" or later") {
			t.Errorf("%s: %+v", rule, f)
		}
		if whole == nil || strings.Contains(strings.Join(whole.Caveats, "\n"), "compiled for") {
			t.Errorf("%s with properties: %+v", rule, whole)
		}
	}
}
