package analyze

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// TestLink: which call a device event belongs to.
func TestLink(t *testing.T) {
	call := func(name string, start int64, corr int64, edit ...func(*model.Host)) func(*builder) {
		return func(b *builder) {
			b.host(model.API, name, start, start+5, append(edit, func(h *model.Host) { h.Corr = corr })...)
		}
	}
	kernel := func(start, corr int64, edit ...func(*model.GPU)) func(*builder) {
		return func(b *builder) {
			b.gpu(model.Kernel, "k", start, start+10, append(edit, func(g *model.GPU) { g.Corr = corr })...)
		}
	}
	process := func(p int32) func(*model.GPU) { return func(g *model.GPU) { g.Process = p } }
	otherProcess := func(b *builder) { b.lane(1); b.t.Lanes[1].Process = 2 }
	for _, c := range []struct {
		name  string
		build []func(*builder)
		want  []int64 // start of each device event's launch, -1 none
	}{
		{"one each", []func(*builder){call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 2), kernel(40, 2), kernel(30, 1)}, []int64{10, 20}},
		{"starts before its launch", []func(*builder){call("cudaLaunchKernel", 100, 1), kernel(90, 1)}, []int64{100}},
		{"no id", []func(*builder){call("cudaLaunchKernel", 10, 0), kernel(30, 0)}, []int64{-1}},
		{"an id no call has", []func(*builder){call("cudaLaunchKernel", 10, 1), kernel(30, 2)}, []int64{-1}},
		{"an operator's external id is no launch", []func(*builder){
			func(b *builder) { b.host(model.Op, "aten::mm", 10, 20, withExt(7)) }, kernel(30, 7)}, []int64{-1}},
		{"one graph, many kernels", []func(*builder){call("cudaGraphLaunch", 10, 1), kernel(30, 1), kernel(50, 1), kernel(70, 1)}, []int64{10, 10, 10}},
		{"repeated id, the last one before", []func(*builder){call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 50, 1), kernel(30, 1), kernel(80, 1)}, []int64{10, 50}},
		{"repeated id, none before", []func(*builder){call("cudaLaunchKernel", 50, 1), call("cudaLaunchKernel", 90, 1), kernel(30, 1)}, []int64{50}},
		{"repeated id, a call that launches nothing is later", []func(*builder){
			call("cudaLaunchKernel", 10, 1), call("cudaStreamSynchronize", 20, 1), call("cudaEventRecord", 22, 1), kernel(30, 1)}, []int64{10}},
		{"only a call that launches nothing", []func(*builder){call("cudaEventRecord", 22, 1), kernel(30, 1)}, []int64{22}},
		{"two processes, one id", []func(*builder){otherProcess,
			call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 1, onLane(1)), kernel(30, 1, process(1)), kernel(50, 1, process(2))}, []int64{10, 20}},
		{"an id of the other process only", []func(*builder){otherProcess, call("cudaLaunchKernel", 20, 1, onLane(1)), kernel(30, 1, process(1))}, []int64{-1}},
		{"unknown process, unique id", []func(*builder){otherProcess,
			call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 2, onLane(1)), kernel(30, 1, process(-1)), kernel(50, 2, process(-1))}, []int64{10, 20}},
		{"unknown process, id in two", []func(*builder){otherProcess,
			call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 1, onLane(1)), kernel(30, 1, process(-1))}, []int64{-1}},
		{"unknown process, repeated in one", []func(*builder){
			call("cudaLaunchKernel", 10, 1), call("cudaLaunchKernel", 20, 1), kernel(30, 1, process(-1))}, []int64{20}},
		{"large and negative ids", []func(*builder){
			call("cudaLaunchKernel", 10, -1<<62), call("cudaLaunchKernel", 20, 1<<62), kernel(30, -1<<62), kernel(50, 1<<62)}, []int64{10, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBuilder()
			for _, f := range c.build {
				f(b)
			}
			tr := b.finish()
			var got []int64
			for i := range tr.GPU {
				start := int64(-1)
				if l := tr.GPU[i].Launch; l >= 0 {
					start = tr.Host[l].Start
				}
				got = append(got, start)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("launches at %v, want %v", got, c.want)
			}
		})
	}
}
