package guides

import (
	"context"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
)

// weightsName is the workload of the claim about loading a model's weights.
const weightsName = "weights"

// weights loads a checkpoint from memory in every step, as if from a file. Half of its tensors belong to the
// optimiser and are not needed on the device. Like transfer it only tests claims.
type weights struct{}

func (weights) Name() string                { return weightsName }
func (weights) Doc() string                 { return "loads a checkpoint to the device, for a claim about that" }
func (weights) Presets() []workloads.Preset { return []workloads.Preset{{Name: "small"}} }
func (weights) Stages() []gpuprof.Stage {
	return []gpuprof.Stage{{Name: "load", Role: gpuprof.RoleTransfer, MaxSpans: 1}}
}
func (weights) Refuse(device.Info, gpuprof.Settings) error { return nil }

func (weights) Knobs() []workloads.Knob {
	return []workloads.Knob{
		workloads.IntKnob("tensors", "tensors of the model; the optimiser has as many", 32, 1, 4096).AsModel(),
		workloads.IntKnob("bytes", "size of a tensor", 256<<10, 4, 1<<28).AsModel(),
		workloads.Choice("load", "staged: each tensor to memory of its own, to the model's, then to the device; direct: the file's bytes to the device", "staged", "direct"),
		workloads.Choice("skip_keys", "on leaves out the tensors that the model does not use", "off", "on"),
	}
}

func (weights) Open(_ context.Context, d device.Device, c workloads.Config) (_ workloads.Session, err error) {
	s := &weightsSession{copies: copies{dev: d, n: c.Knobs.Int("bytes")}, tensors: c.Knobs.Int("tensors"), direct: c.Knobs["load"] == "direct", skip: c.Knobs.On("skip_keys")}
	defer func() {
		if err != nil {
			_ = s.Close() // the first error is the one to report
		}
	}()
	total := s.tensors * s.n
	if s.file, err = s.alloc(2*total, device.Pageable); err != nil {
		return nil, err
	}
	fillPattern(s.file.Bytes(), 0)
	if !s.direct {
		if s.model, err = s.alloc(total, device.Pageable); err != nil {
			return nil, err
		}
	}
	if s.on, err = s.alloc(total, device.OnDevice); err != nil {
		return nil, err
	}
	s.main, err = s.stream("main")
	return s, err
}

type weightsSession struct {
	copies
	tensors         int
	direct, skip    bool
	file, model, on device.Buffer
	main            device.Stream
	tensor          []byte // the tensor read last; kept so that the compiler cannot drop the read
}

// Stages implements workloads.Session.
func (s *weightsSession) Stages() []gpuprof.Stage { return weights{}.Stages() }
func (s *weightsSession) Main() device.Stream     { return s.main }
func (s *weightsSession) Depth() int              { return 1 }
func (s *weightsSession) Cycle() int              { return 1 }
func (s *weightsSession) Work() (float64, string) { return 1, "loads" }
func (s *weightsSession) Input() map[string]any   { return nil }

// Check implements workloads.Session: it checks that the model's tensors are on the device.
func (s *weightsSession) Check(context.Context) ([]gpuprof.Check, error) {
	if err := s.Step(0, loop.Silent{}); err != nil {
		return nil, err
	}
	c, err := s.checkBytes("load", s.main, s.on, s.file.Bytes()[:s.on.Len()])
	return []gpuprof.Check{c}, err
}

// Step implements workloads.Session. The file holds the model's tensors first.
func (s *weightsSession) Step(i int, p workloads.Probe) error {
	if err := p.Start(i); err != nil {
		return err
	}
	span := p.Begin(0, s.main)
	tensors := 2 * s.tensors
	if s.skip {
		tensors = s.tensors
	}
	for t := range tensors {
		if err := s.loadTensor(t); err != nil {
			return err
		}
	}
	p.End(span)
	return s.main.Sync()
}

// loadTensor copies one tensor to the device, or a tensor of the optimiser to host memory, as a careless program does.
func (s *weightsSession) loadTensor(t int) error {
	used := t < s.tensors
	from := t * s.n
	if s.direct && used {
		return s.main.Copy(s.on, from, s.file, from, s.n)
	}
	s.tensor = append([]byte(nil), s.file.Bytes()[from:from+s.n]...) // memory of its own, as a reader makes it
	if !used {
		return nil
	}
	copy(s.model.Bytes()[from:], s.tensor)
	return s.main.Copy(s.on, from, s.model, from, s.n)
}
