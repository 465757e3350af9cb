package health

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gpuprof/gpuprof"
)

func FuzzRanges(f *testing.F) {
	f.Add([]byte(`{"schema_version":"1.0.0","devices":{"NVIDIA X":{"provenance":"here","metrics":{"copy":[1,2]}}}}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := ParseRanges(text, "f")
		if err != nil {
			if !errors.Is(err, gpuprof.ErrInput) || bytes.ContainsRune([]byte(err.Error()), '\n') && !bytes.ContainsRune(text, '\n') {
				t.Errorf("error %v", err)
			}
			return
		}
		for name := range r.Devices {
			if _, err := Judge(nil, []Card{{Device: "a", Name: name, Metrics: []Metric{{Name: "copy", Value: 1}}}}, r, gpuprof.Tool{}); err != nil {
				t.Error(err)
			}
		}
	})
}
