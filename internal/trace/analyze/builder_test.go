package analyze

import (
	"context"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// builder puts traces together by hand. Times are ns.
type builder struct {
	t     *model.Trace
	names map[string]model.NameID
	corr  int64
}

func newBuilder() *builder {
	return &builder{t: &model.Trace{Path: "hand.json", Format: model.Kineto, Rank: -1}, names: map[string]model.NameID{}}
}

func (b *builder) name(s string) model.NameID {
	id, ok := b.names[s]
	if !ok {
		id = model.NameID(len(b.t.Names))
		b.names[s] = id
		b.t.Names = append(b.t.Names, s)
	}
	return id
}

func (b *builder) lane(n uint32) {
	for len(b.t.Lanes) <= int(n) {
		b.t.Lanes = append(b.t.Lanes, model.Lane{Process: 1, Thread: int64(len(b.t.Lanes))})
	}
}

// host adds a host event on lane 0 unless edits say otherwise.
func (b *builder) host(k model.Kind, name string, start, end int64, edit ...func(*model.Host)) *builder {
	h := model.Host{Start: start, End: end, Name: b.name(name), Kind: k}
	for _, e := range edit {
		e(&h)
	}
	b.lane(h.Lane)
	b.t.Host = append(b.t.Host, h)
	b.t.Events++
	return b
}

func onLane(n uint32) func(*model.Host) { return func(h *model.Host) { h.Lane = n } }
func withSeq(n int64) func(*model.Host) { return func(h *model.Host) { h.Seq = n } }
func withExt(n int64) func(*model.Host) { return func(h *model.Host) { h.Corr = n } }

// launch adds a launch call [at, at+len) and a kernel [start, end).
func (b *builder) launch(name string, at, length, start, end int64, edit ...func(*model.Host)) *builder {
	b.corr++
	corr := b.corr
	b.host(model.API, "cudaLaunchKernel", at, at+length, append(edit, func(h *model.Host) { h.Corr = corr })...)
	return b.gpu(model.Kernel, name, start, end, func(g *model.GPU) { g.Corr = corr })
}

// gpu adds a device event on device 0 of process 1 unless edits say otherwise.
func (b *builder) gpu(k model.Kind, name string, start, end int64, edit ...func(*model.GPU)) *builder {
	g := model.GPU{Start: start, End: end, Name: b.name(name), Kind: k, Process: 1, Launch: -1}
	for _, e := range edit {
		e(&g)
	}
	for len(b.t.Devices) <= int(g.Device) {
		b.t.Devices = append(b.t.Devices, model.Device{ID: len(b.t.Devices)})
	}
	b.t.GPU = append(b.t.GPU, g)
	b.t.Events++
	return b
}

func (b *builder) finish() *model.Trace {
	b.t.Finish()
	return b.t
}

func (b *builder) index(t testing.TB) *Index {
	t.Helper()
	x, err := NewIndex(context.Background(), b.finish())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// find is the first host event of a name.
func (x *Index) find(t testing.TB, name string) int32 {
	t.Helper()
	for i := range x.T.Host {
		if x.T.Name(x.T.Host[i].Name) == name {
			return int32(i)
		}
	}
	t.Fatalf("no host event %q", name)
	return -1
}

// findGPU is the first device event of a name.
func (x *Index) findGPU(t testing.TB, name string) int32 {
	t.Helper()
	for i := range x.T.GPU {
		if x.T.Name(x.T.GPU[i].Name) == name {
			return int32(i)
		}
	}
	t.Fatalf("no device event %q", name)
	return -1
}
