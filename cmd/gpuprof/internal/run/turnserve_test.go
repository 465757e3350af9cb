package run

import (
	"errors"
	"testing"
	"time"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/measure"
)

// A last question that is none is refused, and a good one is read whole.
func TestLastLoad(t *testing.T) {
	if err := lastLoad("123.4 2s 8s"); !errors.Is(err, measure.LastLoad{Rate: 123.4, MinTime: 2 * time.Second, MaxTime: 8 * time.Second}) {
		t.Errorf("%v", err)
	}
	for _, text := range []string{"", "1", "1 2s", "x 2s 8s", "1 8s 2s", "-1 2s 8s", "nan 2s 8s"} {
		if err := lastLoad(text); !errors.Is(err, gpuprof.ErrUsage) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
