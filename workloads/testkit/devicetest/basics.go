package devicetest

import (
	"context"

	"github.com/gpuprof/gpuprof/workloads/device"
)

func checkInfo(l *lab) {
	in := l.dev.Info()
	if in.Kind == "" || in.Name == "" || in.Arch == "" || in.Cores < 1 || in.CacheBytes < 1 {
		l.t.Errorf("incomplete: %+v", in)
	}
}

func checkLoad(l *lab) {
	for name, f := range l.fn {
		if got := f.Kernel().Name; got != name {
			l.t.Errorf("kernel %s says it is %q", name, got)
		}
	}
	host := func(*device.Args, int, int) {}
	for _, k := range []*device.Kernel{
		nil,
		{Sig: "b", Host: host},
		{Name: "neither", Sig: "b"},
		{Name: "odd letter", Sig: "bx", Host: host},
		{Name: "too long", Sig: "bbbbbbbbbbbbbbbbbbbbb", Host: host},
	} {
		_, err := l.dev.Load(k)
		l.wantError(err)
		if k != nil {
			l.wantError(err, k.Name)
		}
	}
}

func checkCeilings(l *lab) {
	before, mem := l.dev.Meter(), l.dev.Memory()
	c, err := l.dev.Ceilings(context.Background())
	l.ok(err)
	if !(c.CopyBytesPerS > 1e8) || !(c.FlopsPerS > 1e8) {
		l.t.Errorf("not a rate of any machine in use: %+v", c)
	}
	again, err := l.dev.Ceilings(context.Background())
	l.ok(err)
	if again.Best(c) != again {
		l.t.Errorf("measured again and not the best of both: %+v, then %+v", c, again)
	}
	for name, rate := range map[string]float64{"reads": c.ReadBytesPerS, "writes": c.WriteBytesPerS, "the caches": c.CacheBytesPerS, "float64": c.FP64FlopsPerS} {
		if !(rate > 1e6) {
			l.t.Errorf("the rate of %s is %g", name, rate)
		}
	}
	if !(c.LaunchS > 0) {
		l.t.Errorf("a launch takes %g s", c.LaunchS)
	}
	if m := l.dev.Meter(); m != before {
		l.t.Errorf("measuring was counted: %+v", m.Sub(before))
	}
	if m := l.dev.Memory(); m.InUse != mem.InUse {
		l.t.Errorf("%d bytes in use after measuring, %d before", m.InUse, mem.InUse)
	}
}
