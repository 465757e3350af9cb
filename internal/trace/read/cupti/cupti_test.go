package cupti

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// second is a time as CUPTI's clock has it.
const second = uint64(1_700_000_000_000_000_000)

// known is a recording with one of everything.
func known() *builder {
	b := newBuilder()
	b.text(tProcess, "pid=4711\nppid=1\nexe=/bin/x\nrank=3\nworld=8\nvisible=5,6\nlibrary=libjax_cuda.so\n")
	b.record(tDevice, uint32(0), b.name("NVIDIA Test GPU"), uint32(132), uint32(9), uint32(0), uint32(0), uint64(80<<30), uint64(3_352_320_000), [16]byte{1})
	b.record(tClock, second, second, uint64(5), uint32(40), uint32(0))
	b.record(tThread, uint32(77), b.name("main"))
	b.call("cudaLaunchKernel_v7000", second+1000, second+2000, 1, 77, 0)
	b.call("cuLaunchKernel", second+1100, second+1900, 1, 77, 0) // made by the one before
	b.kernel("_ZN3foo3barIfEEvPT_", second+3000, second+9000, 1, 7, 0)
	b.call("cudaMemcpyAsync_ptsz_v7000", second+2100, second+2500, 2, 77, 0)
	b.copy(copyH2D, 1, 3, 4096, second+9500, second+9900, 2)
	b.call("cudaMemsetAsync_v3020", second+2600, second+2700, 3, 77, 0)
	b.record(tFill, second+9900, second+9950, uint64(64), uint32(3), uint32(7), uint32(1), uint16(0), uint16(3), uint32(0), uint32(0), uint64(0))
	b.call("cudaGraphLaunch_v10000", second+10_000, second+10_500, 4, 77, 1)
	b.kernel("node", second+11_000, second+12_000, 4, 7, 9)
	b.nvtx(opPush, "step 1", second+900, 77, 0, 0)
	b.nvtx(opPush, "aten::mm, seq = 3", second+950, 77, 0, 0)
	b.nvtx(opPop, "", second+2050, 77, 0, 0)
	b.nvtx(opMark, "loss", second+2060, 77, 0, 0)
	b.nvtx(opStart, "epoch", second+940, 77, 12, 0)
	b.nvtx(opPop, "", second+12_500, 77, 0, 0)
	b.nvtx(opEnd, "", second+2000, 78, 12, 0) // in another thread; it crosses aten::mm
	b.record(tOverhead, second+2800, second+2900, uint32(2<<16), uint32(77))
	b.end()
	return b
}

func TestKnown(t *testing.T) {
	tr := known().read(t)
	if tr.Format != model.CUDA || tr.Rank != 3 || tr.World != 8 || tr.Framework != model.JAX || tr.Truncated {
		t.Errorf("%s, rank %d of %d, framework %d, truncated %t", tr.Format, tr.Rank, tr.World, tr.Framework, tr.Truncated)
	}
	if want := []model.Device{{ID: 5, Name: "NVIDIA Test GPU", Major: 9, SMs: 132, TotalBytes: 80 << 30, PeakBytesPerS: 3_352_320_000_000}}; !slices.Equal(tr.Devices, want) {
		t.Errorf("devices %+v", tr.Devices)
	}
	if len(tr.GPU) != 4 {
		t.Fatalf("%d operations", len(tr.GPU))
	}
	k, c, f, n := tr.GPU[0], tr.GPU[1], tr.GPU[2], tr.GPU[3]
	if tr.Name(k.Name) != "void foo::bar<float>(float*)" || k.Blocks != 264 || k.Threads != 256 || k.Graph || k.Launch < 0 || tr.Name(tr.Host[k.Launch].Name) != "cudaLaunchKernel" {
		t.Errorf("kernel %s %+v", tr.Name(k.Name), k)
	}
	if tr.Name(c.Name) != "Memcpy HtoD (Pageable -> Device)" || c.Bytes != 4096 || c.Dir != model.H2D || c.Memory != model.Pageable {
		t.Errorf("copy %s %+v", tr.Name(c.Name), c)
	}
	if tr.Name(f.Name) != "Memset (Device)" || f.Bytes != 64 || !n.Graph || n.Launch < 0 {
		t.Errorf("fill %s %+v, node %+v", tr.Name(f.Name), f, n)
	}
	var host []string
	for i := range tr.Host {
		h := &tr.Host[i]
		host = append(host, h.Kind.String()+" "+tr.Name(h.Name))
		if h.Kind == model.API && tr.Name(h.Name) == "cuLaunchKernel" {
			t.Error("the call inside another is kept")
		}
	}
	for _, want := range []string{"annotation step 1", "operator aten::mm", "instant loss", "annotation epoch", "api cudaMemcpyAsync", "overhead CUPTI buffer flush"} {
		if !slices.Contains(host, want) {
			t.Errorf("no %q in %q", want, host)
		}
	}
	if tr.Lanes[0] != (model.Lane{Process: 4711, Thread: 77, Name: "main"}) || len(tr.Lanes) != 2 {
		t.Errorf("lanes %+v: the range that crosses another has one of its own", tr.Lanes)
	}
	if len(tr.Warnings) != 1 || tr.Warnings[0].Code != "failed-calls" {
		t.Errorf("warnings %v", tr.Warnings)
	}
}

// Launches that returned an error are named, once each where the runtime's call made the driver's; an error of a kernel
// names the first call that returned it.
func TestFailedCalls(t *testing.T) {
	b := newBuilder()
	b.record(tClock, second, second, uint64(5), uint32(40), uint32(0))
	b.call("cudaLaunchKernel_v7000", second+1000, second+2000, 1, 77, 701)
	b.call("cuLaunchKernel", second+1100, second+1900, 1, 77, 701)
	b.call("cudaStreamQuery_v3020", second+2100, second+2200, 2, 77, 600)
	b.call("cudaMemcpy_v3020", second+3000, second+4000, 3, 77, 700)
	b.call("cudaLaunchKernel_v7000", second+5000, second+5500, 4, 77, 700)
	b.end()
	tr := b.read(t)
	want := []string{"failed-calls: 3 CUDA calls returned an error",
		"failed-kernel: a kernel failed while it ran: cudaMemcpy returned its error (700 cudaErrorIllegalAddress); 1 later launch of a kernel returned an error, and its kernel did not run",
		"failed-launches: 1 launch of a kernel returned an error, and its kernel did not run"}
	var got []string
	for _, w := range tr.Warnings {
		got = append(got, w.Code+": "+w.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("warnings %q, want %q", got, want)
	}
	for i := range tr.Host {
		if name := tr.Name(tr.Host[i].Name); strings.Contains(name, "LaunchKernel") {
			t.Errorf("a failed launch is named %s", name)
		}
	}
}

// Every beginning of a recording is readable, says that it is one, and has no event that the whole lacks.
func TestEveryBeginning(t *testing.T) {
	whole := known().Bytes()
	full := known().read(t)
	for n := range len(whole) {
		tr, err := Read(context.Background(), bytes.NewReader(whole[:n]), "x", 0)
		if err != nil {
			if !errors.Is(err, gpuprof.ErrInput) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			continue
		}
		if !tr.Truncated || len(tr.GPU) > len(full.GPU) || len(tr.Host) > len(full.Host)+1 { // without its outer call one more stays
			t.Fatalf("%d bytes: truncated %t, %d and %d events", n, tr.Truncated, len(tr.GPU), len(tr.Host))
		}
	}
}

// gated marks files of which the gate leaves out a record.
const gated = "gated"

// What a file says wrongly is reported, and the rest kept.
func TestDamage(t *testing.T) {
	for name, c := range map[string]struct {
		build func(b *builder)
		code  string
	}{
		"killed":        {func(*builder) {}, "truncated"},
		"torn":          {func(b *builder) { b.WriteString("GPch\x05") }, "truncated"},
		"garbage":       {func(b *builder) { b.WriteString(strings.Repeat("x", 100)) }, "truncated"},
		"wild size":     {func(b *builder) { b.put(uint32(chunkMark), uint16(5), uint16(80), uint32(1), uint32(1<<31), uint64(0)) }, "truncated"},
		"unknown type":  {func(b *builder) { b.record(99, uint64(1)); b.end() }, ""},
		"short records": {func(b *builder) { b.record(tKernel, uint32(1)); b.end() }, gated},
		"wild count":    {func(b *builder) { b.chunk(tCall, 32, 1<<30, make([]byte, 32)); b.end() }, "bad-times"},
		"unknown names": {func(b *builder) {
			b.record(tCall, second, second+1, uint32(9), uint32(1), uint32(999), int32(0))
			b.end()
		}, ""},
		"names beyond": {func(b *builder) { b.chunk(tNames, 0, 5, []byte{1, 0, 0, 0, 255, 255, 255, 255, 'a'}); b.end() }, ""},
		"time 0":       {func(b *builder) { b.kernel("k", 0, 0, 5, 1, 0); b.end() }, gated},
		"lost":         {func(b *builder) { b.record(tLost, uint64(3), uint64(0), uint64(0), uint64(0), uint64(0)); b.end() }, "dropped-events"},
		"lost ranges":  {func(b *builder) { b.record(tLost, uint64(0), uint64(0), uint64(0), uint64(0), uint64(9)); b.end() }, "dropped-ranges"},
		"a whole graph": {func(b *builder) {
			b.record(tGraph, second, second+9, uint32(8), uint32(1), uint32(1), uint32(4), uint16(0), uint16(0), uint32(0))
			b.end()
		}, "graphs-as-a-whole"},
		"open range":     {func(b *builder) { b.nvtx(opPush, "ProfilerStep#4", second, 1, 0, 0); b.end() }, ""},
		"end of nothing": {func(b *builder) { b.nvtx(opPop, "", second, 1, 0, 0); b.nvtx(opEnd, "", second, 1, 99, 0); b.end() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder()
			b.kernel("k", second, second+5, 1, 7, 0)
			c.build(b)
			tr := b.read(t)
			has := slices.ContainsFunc(tr.Warnings, func(w gpuprof.Warning) bool { return w.Code == c.code })
			has = has || c.code == gated && tr.Gate.Devices[0].Untimed == 1
			if has != (c.code != "") || len(tr.GPU) == 0 {
				t.Errorf("warnings %v, %d operations", tr.Warnings, len(tr.GPU))
			}
		})
	}
}

// Files that are no recording, or of another make, say so.
func TestNotOurs(t *testing.T) {
	for want, text := range map[string]string{
		"ends after 3 bytes": "gpu",
		"no recording":       strings.Repeat("x", 40),
		"another byte order": magic + "\x01\x00\x00\x00\x01\x02\x03\x04",
		"its version is 7":   magic + "\x07\x00\x00\x00\x04\x03\x02\x01",
		"holds no kernel":    magic + "\x01\x00\x00\x00\x04\x03\x02\x01",
	} {
		if _, err := Read(context.Background(), strings.NewReader(text), "x", 0); !errors.Is(err, gpuprof.ErrInput) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// NVTX times are of another clock where CUPTI's is not the machine's.
func TestClocksThatDisagree(t *testing.T) {
	b := newBuilder()
	b.record(tClock, second-4_000_000, second, uint64(5), uint32(40), uint32(0))
	b.kernel("k", second, second+5, 1, 7, 0)
	b.nvtx(opMark, "m", second+100, 1, 0, 0)
	b.end()
	if tr := b.read(t); tr.Host[0].Start != int64(second)+100-4_000_000 {
		t.Errorf("the mark is at %d", tr.Host[0].Start)
	}
}

// Ranges of each thread and domain nest by themselves, whatever their order in the file.
func TestRangesNest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, at, open := newBuilder(), second, map[stackKey]int{}
		pushed := 0
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			at += uint64(rapid.IntRange(0, 50).Draw(t, "gap"))
			k := stackKey{uint32(rapid.IntRange(1, 3).Draw(t, "thread")), uint32(rapid.IntRange(0, 1).Draw(t, "domain"))}
			if rapid.Bool().Draw(t, "push") || open[k] == 0 {
				b.nvtx(opPush, "r", at, k.thread, 0, k.domain)
				open[k]++
				pushed++
			} else {
				b.nvtx(opPop, "", at, k.thread, 0, k.domain)
				open[k]--
			}
		}
		b.end()
		tr, err := Read(context.Background(), bytes.NewReader(b.Bytes()), "x", 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(tr.Host) != pushed {
			t.Fatalf("%d ranges of %d", len(tr.Host), pushed)
		}
		for i := range tr.Host { // on every lane events nest
			for j := i + 1; j < len(tr.Host) && tr.Host[j].Lane == tr.Host[i].Lane; j++ {
				if a, c := &tr.Host[i], &tr.Host[j]; c.Start < a.End && c.End > a.End && c.Start > a.Start {
					t.Fatalf("%+v crosses %+v", a, c)
				}
			}
		}
	})
}

// A recording that needs more memory than there is room for is kept from its beginning.
func TestRoom(t *testing.T) {
	b := newBuilder()
	for i := range uint64(20_000) {
		b.call("cudaLaunchKernel_v7000", second+i*100, second+i*100+10, uint32(i+1), 1, 0)
		b.kernel("k", second+i*100+20, second+i*100+90, uint32(i+1), 7, 0)
	}
	b.end()
	tr, err := Read(context.Background(), bytes.NewReader(b.Bytes()), "x", 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(tr.GPU); !tr.Truncated || n < 2000 || n > 12_000 || tr.GPU[0].Start != int64(second)+20 {
		t.Errorf("truncated %t, %d kernels", tr.Truncated, n)
	}
	if tr, err = Read(context.Background(), bytes.NewReader(b.Bytes()), "x", 0); err != nil || len(tr.GPU) != 20_000 || tr.Truncated {
		t.Errorf("%v; %d kernels of 20000", err, len(tr.GPU))
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Read(ctx, bytes.NewReader(known().Bytes()), "x", 0); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	whole := known().Bytes()
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := Read(context.Background(), bytes.NewReader(data), "x", 1<<20)
		if err != nil {
			if !errors.Is(err, gpuprof.ErrInput) {
				t.Fatal(err)
			}
			return
		}
		for i := range tr.GPU {
			if g := &tr.GPU[i]; int(g.Device) >= len(tr.Devices) || int(g.Name) >= len(tr.Names) || g.End < g.Start {
				t.Fatalf("%+v", g)
			}
		}
		for i := range tr.Host {
			if h := &tr.Host[i]; int(h.Lane) >= len(tr.Lanes) || int(h.Name) >= len(tr.Names) || h.End < h.Start {
				t.Fatalf("%+v", h)
			}
		}
		if _, err := analyze.NewIndex(context.Background(), tr); err != nil {
			t.Fatal(err)
		}
	})
}
