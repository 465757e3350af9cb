package search

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
)

// FuzzDecode: whatever a file holds, it is a result or an input error.
func FuzzDecode(f *testing.F) {
	var b bytes.Buffer
	if err := document.Encode(&b, &tune.Result{Head: document.NewHead(document.Tune, gpuprof.Tool{})}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"schema_version":"1.0.0","kind":"tune","recommended":{"text":"a","confirmed":true,"knobs":{"a":"b"}}}`))
	f.Add([]byte(`{"schema_version":"2.0.0","kind":"tune","journal":[{"outcome":{"a":[[1]],"b":[[2]],"verdict":"refused"}},{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if r, err := tune.Decode(text, "x.json"); (r == nil) != (err != nil) || err != nil && !errors.Is(err, gpuprof.ErrInput) {
			t.Errorf("%v, %v", r, err)
		}
	})
}
