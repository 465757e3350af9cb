package e3nn

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
	"github.com/gpuprof/gpuprof/workloads/loop"
	"github.com/gpuprof/gpuprof/workloads/op"
)

// vectorCase is one case of a vectors file, in the format of docs/vectors.md. A comment names the kind of case to which
// the fields from there on belong. Arrays may be nested or flat.
type vectorCase struct {
	Kind string `json:"kind"`
	Out  array  `json:"out"`

	L1 *int `json:"l1"` // wigner_3j
	L2 *int `json:"l2"`
	L3 *int `json:"l3"`

	LMax          *int   `json:"lmax"` // spherical_harmonics
	Normalization string `json:"normalization"`
	R             array  `json:"r"`

	IrrepsIn1    string        `json:"irreps_in1"` // tensor_product
	IrrepsIn2    string        `json:"irreps_in2"`
	IrrepsOut    string        `json:"irreps_out"`
	Instructions []instruction `json:"instructions"`
	IrrepNorm    string        `json:"irrep_normalization"`
	PathNorm     string        `json:"path_normalization"`
	X            array         `json:"x"`
	Y            array         `json:"y"`
	W            array         `json:"w"`

	Scalars       string     `json:"irreps_scalars"` // gate, with x as above
	Gates         string     `json:"irreps_gates"`
	Gated         string     `json:"irreps_gated"`
	Activations   [][]string `json:"activations"`
	Normalisation string     `json:"normalisation"`

	DY   array `json:"dy"`   // spherical_harmonics_grad: cotangents of the harmonics
	DOut array `json:"dout"` // tensor_product_grad, gate_grad: cotangents of the output

	Basis     string  `json:"basis"` // radial_grad
	Functions int     `json:"functions"`
	Cutoff    float64 `json:"cutoff"`
	Envelope  bool    `json:"envelope"`
	DB        array   `json:"db"`
}

// array is a JSON array of numbers, nested or flat, flattened in order.
type array []float64

// UnmarshalJSON implements json.Unmarshaler.
func (a *array) UnmarshalJSON(b []byte) (err error) {
	*a, err = loop.Numbers(b)
	return err //nolint:wrapcheck // the case's name is put before it
}

// instruction is [i_in1, i_in2, i_out, mode, has_weight, path_weight], as in e3nn.
type instruction struct {
	In1, In2, Out int
	Mode          string
	HasWeight     bool
	PathWeight    float64
}

// UnmarshalJSON implements json.Unmarshaler.
func (i *instruction) UnmarshalJSON(b []byte) error {
	i.PathWeight = 1
	fields := []any{&i.In1, &i.In2, &i.Out, &i.Mode, &i.HasWeight, &i.PathWeight}
	var raw []json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if len(raw) != 5 && len(raw) != 6 {
		return gpuprof.Errorf(nil, "an instruction has %d entries", len(raw)).WithFix("give [i_in1, i_in2, i_out, mode, has_weight, path_weight]")
	}
	for k, r := range raw {
		if err := json.Unmarshal(r, fields[k]); err != nil {
			return fmt.Errorf("entry %d of an instruction: %w", k+1, err)
		}
	}
	return nil
}

// CheckVectors implements workloads.VectorChecker.
func (Workload) CheckVectors(ctx context.Context, d device.Device, file []byte, name string) ([]gpuprof.CaseResult, error) {
	stream, err := d.NewStream("vectors")
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	v := &vectorRunner{dev: d, stream: stream}
	return loop.Vectors(ctx, file, name, "docs/vectors.md", func(c *vectorCase) string { return c.Kind }, v.run)
}

func (v *vectorRunner) run(c *vectorCase) ([]gpuprof.CaseResult, error) {
	all := []struct {
		kind string
		run  func(*vectorCase) ([]gpuprof.CaseResult, error)
	}{
		{"wigner_3j", v.wigner3j}, {"spherical_harmonics", v.runHarmonics}, {"tensor_product", v.tensorProduct}, {"gate", v.runGate},
		{"spherical_harmonics_grad", v.harmonicsGrad}, {"tensor_product_grad", v.tensorProductGrad}, {"radial_grad", v.radialGrad},
		{"gate_grad", v.gateGrad},
	}
	var kinds []string
	for _, k := range all {
		if k.kind == c.Kind {
			return k.run(c)
		}
		kinds = append(kinds, k.kind)
	}
	last := len(kinds) - 1
	return nil, gpuprof.Errorf(nil, "unknown kind %q", c.Kind).WithFix("use %s or %s%s", strings.Join(kinds[:last], ", "), kinds[last], gpuprof.DidYouMean(c.Kind, kinds))
}

// result32 and result64 compare computed values with the values want of the case.
func result32(got []float32, want array) gpuprof.CaseResult {
	var e op.ErrorNorm
	e.Add(got, want)
	return gpuprof.CaseResult{Precision: "float32", RelativeError: gpuprof.Number(e.Relative()), Tolerance: loop.Tolerance32}
}

func result64(got []float64, want array) gpuprof.CaseResult {
	var e op.ErrorNorm
	e.AddWide(got, want)
	return gpuprof.CaseResult{Precision: "float64", RelativeError: gpuprof.Number(e.Relative()), Tolerance: loop.Tolerance64}
}

// sampleCount returns the number of rows of a given width in an array; an error if it is 0 or not whole.
func sampleCount(what string, a array, width int) (int, error) {
	if len(a) == 0 || width == 0 {
		return 0, fmt.Errorf("%s holds no sample, so there is nothing to compare", what)
	}
	if len(a)%width != 0 {
		return 0, fmt.Errorf("%s has %d values, which is no whole number of rows of %d", what, len(a), width)
	}
	return len(a) / width, nil
}

func checkLength(what string, a array, n int) error {
	if len(a) != n {
		return fmt.Errorf("%s has %d values, the case needs %d", what, len(a), n)
	}
	return nil
}
