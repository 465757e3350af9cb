package serving

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/testkit/sim"
	"github.com/gpuprof/gpuprof/workloads/device/cuda"
	"github.com/gpuprof/gpuprof/workloads/testkit/workloadtest"
)

// A device that is lost while the service listens ends the run with the requests so far: who was answered is, who waits
// is told and is open.
func TestLostOutside(t *testing.T) {
	lib := sim.Library(t)
	sim.Configure(t, lib, "")
	t.Setenv("GPUPROF_CUDA_LIBRARY_PATH", t.TempDir())
	d, err := cuda.Open(cuda.Options{Library: lib, AllowSimulated: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() }) // nothing can be given back
	s, err := open(context.Background(), d, workloadtest.Config(t, New(), "synthetic", fast("arrivals=http:0")...))
	if err != nil {
		t.Fatal(err)
	}
	service := listens(t, s)
	post := func(i int64) (int, string) {
		resp, err := http.Post("http://"+service.address+"/v2/models/synthetic/infer", "application/json", strings.NewReader(asked(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body)
	}
	if status, body := post(3); status != http.StatusOK || !strings.Contains(body, `"data":[-5]`) {
		t.Errorf("%d %s", status, body)
	}
	sim.Set(t, lib, "lost=1")
	if status, body := post(4); status != http.StatusInternalServerError || !strings.Contains(body, "the device failed, which ended the run") {
		t.Errorf("%d %s", status, body)
	}
	service.done.Wait()
	if !errors.Is(service.err, gpuprof.ErrDevice) || service.out == nil {
		t.Fatalf("%v, %+v", service.err, service.out)
	}
	if p := service.out.Processes[0]; p.Scheduled != 2 || p.Completed != 1 || p.Open != 1 || p.Failed != 0 {
		t.Errorf("%d scheduled, %d completed, %d open, %d failed", p.Scheduled, p.Completed, p.Open, p.Failed)
	}
}
