package gridsim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// A replay of a session's requests reserves what the pool itself did, and with another
// setting exactly what a session with that setting reserves: so what a finding promises
// is what turning the knob gives.
func TestReplayIsTheOtherSetting(t *testing.T) {
	peaks := func(settings ...string) (reserved int64, figures map[string]any) {
		t.Helper()
		c := resolve(t, "small", settings...)
		s, err := newSession(nowhere{openHost(t, host.Options{})}, c)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		run(t, s, 200)
		figures = map[string]any{}
		s.memory.(*pooled).addReplays(s.k.MaxSplit, s.Trims > 0, figures)
		return s.memory.counts().peakReserved, figures
	}
	better := 0
	for _, base := range []string{"grid=512,roi=on", "grid=1024,roi=on,max_split=128", "grid=1024,roi=on,max_split=32,pool_trim=every:7", "grid=2048,max_split=512", "grid=512,pool_trim=every:1"} {
		settings := append([]string{"channels=16", "hidden=64", "live=off", "impl=split", "allocator=pool", "scale=1"}, strings.Split(base, ",")...)
		own, figures := peaks(settings...)
		if figures[gpuprof.InputReplayedPeak] != own {
			t.Errorf("%s: %v replayed, %d reserved", base, figures[gpuprof.InputReplayedPeak], own)
		}
		setting, ok := figures[gpuprof.InputBestSetting].(string)
		if !ok {
			continue
		}
		better++
		if with, _ := peaks(append(settings, setting)...); figures[gpuprof.InputBestPeak] != with || with >= own {
			t.Errorf("%s: %v predicted with %s, which reserves %d, and %d without", base, figures[gpuprof.InputBestPeak], setting, with, own)
		}
	}
	if better == 0 {
		t.Error("no setting was better than any other")
	}
}

// A full list keeps what came first, and a replay of it is one of a shorter session.
func TestRequestsEnd(t *testing.T) {
	r := newRequests()
	for range mostRequests {
		r.recordGive(r.recordTake(30 << 20))
	}
	if len(r.list) != mostRequests || cap(r.list) != mostRequests {
		t.Fatal(fmt.Sprint(len(r.list), " requests kept"))
	}
	p := newPooled(nil, nil, 0)
	p.asked = r
	figures := map[string]any{}
	p.addReplays(0, false, figures)
	if figures[gpuprof.InputReplayedPeak] != int64(30<<20) || figures[gpuprof.InputBestSetting] != nil {
		t.Errorf("%v", figures)
	}
}
