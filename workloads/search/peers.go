package search

import (
	"io/fs"
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/internal/document"
	"github.com/gpuprof/gpuprof/internal/tune"
	"github.com/gpuprof/gpuprof/workloads"
)

// peerFile matches the unpacked results of gpu-check in a folder of baselines; scripts/gpucheck/summary.schema.json
// describes them.
const peerFile = "*/gpu-check/summary.json"

// recorded is the part of a gpu-check summary that FindPeers needs.
type recorded struct {
	gpuprof.Head
	Started string `json:"started"`
	Dry     bool   `json:"dry"`
	Device  struct {
		Name string `json:"name"`
	} `json:"device"`
	Table []struct {
		Name     string   `json:"name"`
		Unit     string   `json:"unit"`
		Measured *float64 `json:"measured"`
		Peers    []struct {
			Name  string  `json:"name"`
			Value float64 `json:"value"`
		} `json:"peers"`
	} `json:"table"`
}

// FindPeers reads the figures of other programs for a workload and preset on a device with this name from a folder of
// baselines. It skips files that do not match or cannot be read: peers are optional.
func FindPeers(baselines fs.FS, device string, w workloads.Workload, preset string) []tune.Peer {
	files, err := fs.Glob(baselines, peerFile)
	if err != nil {
		return nil
	}
	var out []tune.Peer
	for _, name := range files {
		var r recorded
		b, err := fs.ReadFile(baselines, name)
		if err != nil || document.Decode(b, name, &r, document.GPUCheck) != nil || r.Dry || r.Device.Name != device {
			continue
		}
		out = append(out, r.peersFor(w, preset)...)
	}
	return out
}

func (r *recorded) peersFor(w workloads.Workload, preset string) []tune.Peer {
	prefixes := []string{"run/" + w.Name() + "-" + preset + "/"}
	for _, st := range w.Stages() {
		if st.TimedAlone {
			prefixes = append(prefixes, st.Name+"/"+preset+"/")
		}
	}
	var out []tune.Peer
	for _, row := range r.Table {
		if row.Measured == nil || *row.Measured <= 0 || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(row.Name, p) }) {
			continue
		}
		for _, p := range row.Peers {
			out = append(out, tune.Peer{Name: p.Name, Figure: row.Name, Unit: row.Unit, Value: p.Value, Ours: *row.Measured, Recorded: r.Started})
		}
	}
	return out
}

// peersOf returns the recorded peers if every model knob has the preset's value.
func (o Options) peersOf() []tune.Peer {
	if o.Peers == nil || o.Workload == nil {
		return nil
	}
	for _, k := range o.Workload.Knobs() {
		if _, set := o.Set[k.Name]; k.Model && set {
			return nil
		}
	}
	return FindPeers(o.Peers, o.DeviceDoc, o.Workload, o.Preset)
}
