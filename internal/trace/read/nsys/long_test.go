//go:build !race

// Under the race detector this takes ten times as long; it runs in one goroutine, where the detector finds nothing.

package nsys

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// A recording that is too long for memory is kept from its beginning up to one
// instant, in every table.
func TestLongRecording(t *testing.T) {
	const n = 40_000
	count := fmt.Sprintf("WITH RECURSIVE c(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM c WHERE i < %d)", n-1)
	path := build(t, append(schema2021(),
		`DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL`, `DELETE FROM CUPTI_ACTIVITY_KIND_RUNTIME`, `DELETE FROM NVTX_EVENTS`, `DELETE FROM CUPTI_ACTIVITY_KIND_MEMCPY`, `DELETE FROM CUPTI_ACTIVITY_KIND_MEMSET`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL `+count+` SELECT 1000*i+500,1000*i+900,0,1,7,i+1,`+pid100+`,1,2,1,1,1,32,1,1,0 FROM c`,
		`INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME `+count+` SELECT 1000*i+100,1000*i+200,0,`+tid100+`,i+1,3,0,0 FROM c`,
		`INSERT INTO NVTX_EVENTS (start,end,eventType,text,globalTid) `+count+` SELECT 1000*i,1000*i+950,60,'loose',`+tid100+` FROM c WHERE i % 10 = 0`)...)
	whole, err := Read(t.Context(), path, path, 0)
	if err != nil || whole.Truncated || len(whole.GPU) != n {
		t.Fatalf("%v, truncated %v, %d kernels", err, whole.Truncated, len(whole.GPU))
	}
	part, err := Read(t.Context(), path, path, n*model.GPUBytes)
	if err != nil || !part.Truncated {
		t.Fatalf("%v, truncated %v", err, part.Truncated)
	}
	sound(t, part)
	last := part.GPU[len(part.GPU)-1].Start
	if len(part.GPU) < n/5 || len(part.GPU) > n*9/10 {
		t.Errorf("%d of %d kernels are kept", len(part.GPU), n)
	}
	kernels, calls := 0, 0
	for i := range whole.GPU {
		if whole.GPU[i].Start <= last {
			kernels++
		}
	}
	for i := range part.Host {
		if part.Host[i].Kind == model.API {
			calls++
		}
		if part.Host[i].Start > last+1000 {
			t.Fatalf("a call begins at %d, and the last kernel at %d", part.Host[i].Start, last)
		}
	}
	if len(part.GPU) != kernels || calls < kernels || calls > kernels+1 {
		t.Errorf("%d kernels and %d calls up to %d, want %d", len(part.GPU), calls, last, kernels)
	}
	if w := part.Warnings[len(part.Warnings)-1]; w.Code != "truncated" || !strings.Contains(w.Fix, "GPUPROF_MEMORY=") {
		t.Errorf("%v", part.Warnings)
	}
}
