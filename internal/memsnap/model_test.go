//go:build !race

// One goroutine replays, which takes ten times as long under the race detector.

package memsnap

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// The model does what PyTorch's allocator did, in every recording that begins with it:
// every call of the driver and every address.
func TestModelEqualsTheRecordings(t *testing.T) {
	for _, name := range fixtures(t) {
		d := &analyzedFixture(t, name).Devices[0]
		if !d.Check.Passed || d.Check.FailedAt != -1 || d.Check.Reason != "" || d.Check.Unknown != 0 {
			t.Errorf("%s: %+v of %d events", name, d.Check, d.Events)
			continue
		}
		own := d.WhatIf[0]
		if name == "late" { // its counters are those of the whole program
			if own.PeakReserved != d.PeakReserved || d.Complete {
				t.Errorf("%s: %+v; it reserved %d", name, own, d.PeakReserved)
			}
			continue
		}
		if peak := d.reservedUntilOOM(); own.PeakReserved != peak || (own.OOM != nil) != (len(d.OOMs) > 0) || own.OOM != nil && !*own.OOM {
			t.Errorf("%s: with its own settings %+v; it reserved %d, %d errors", name, own, peak, len(d.OOMs))
		}
		if want, counted := counters(t, name)["active_bytes.all.peak"]; counted && own.PeakLive != want {
			t.Errorf("%s: live blocks take %d, the allocator counted %d", name, own.PeakLive, want)
		}
	}
}

// reservedUntilOOM is the peak up to the first error, where the replay stops.
func (d *Device) reservedUntilOOM() (peak int64) {
	last := d.Events
	if len(d.OOMs) > 0 {
		last = d.OOMs[0].Event
	}
	d.Replay.Levels(func(event int, _ Action, l Level, _ int64) {
		if event <= last {
			peak = max(peak, l.Reserved)
		}
	})
	return peak
}

// What a replay says of a setting is what PyTorch's allocator did under it, to the byte:
// the peaks and the calls of the driver.
func TestWhatIfEqualsRecordingsUnderTheSetting(t *testing.T) {
	for _, pair := range []struct{ from, setting, to string }{
		{"clean", "expandable_segments:True", "expandable"},
		{"expandable", "expandable_segments:False", "clean"},
		{"lengths", "expandable_segments:True", "lengths-expandable"},
		{"lengths-expandable", "expandable_segments:False", "lengths"},
		{"lengths", "max_split_size_mb:32", "lengths-split"},
		{"lengths-split", "without max_split_size_mb", "lengths"},
		{"lengths-inert", "without max_split_size_mb", "lengths"},
		{"lengths", "roundup_power2_divisions:4", "lengths-roundup"},
		{"lengths-roundup", "without roundup_power2_divisions", "lengths"},
		{"limit", "garbage_collection_threshold:0.5", "collection"},
		{"collection", "without garbage_collection_threshold", "limit"},
	} {
		d := &askedFixture(t, pair.from, pair.setting).Devices[0]
		i := slices.IndexFunc(d.WhatIf, func(w WhatIf) bool { return w.Setting == pair.setting })
		if i < 0 {
			t.Errorf("%s: %q was not tried", pair.from, pair.setting)
			continue
		}
		w, want := d.WhatIf[i], counters(t, pair.to)
		if w.PeakReserved != want["reserved_bytes.all.peak"] || w.PeakLive != want["active_bytes.all.peak"] {
			t.Errorf("%s with %s: %+v; under it the allocator counted %v", pair.from, pair.setting, w, want)
		}
		if calls, counted := want["num_device_alloc"]; counted && (int64(w.DriverAllocs) != calls || int64(w.DriverFrees) != want["num_device_free"]) {
			t.Errorf("%s with %s: %+v; under it the allocator counted %v", pair.from, pair.setting, w, want)
		}
	}
}

// Settings that changed nothing in PyTorch's own allocator are named, and no others.
func TestInertSettings(t *testing.T) {
	for name, want := range map[string]string{
		"lengths": "", "lengths-split": "", "lengths-roundup": "", "lengths-expandable": "",
		"lengths-inert": "max_split_size_mb and garbage_collection_threshold change nothing",
	} {
		title := ""
		for _, f := range analyzed(t, fixture(t, name)).Findings {
			if f.Rule == gpuprof.RuleSettingInert {
				title = f.Title
			}
		}
		if (title != "") != (want != "") || !strings.HasPrefix(title, want) {
			t.Errorf("%s: %q; want %q", name, title, want)
		}
	}
}
