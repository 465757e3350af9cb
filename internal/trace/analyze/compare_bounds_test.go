package analyze

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Operators of NVIDIA's and AMD's libraries are one operator; the backward pass is another.
func TestBoundChangesAcrossLibraries(t *testing.T) {
	of := func(attention, norm string, ns int64) *Roofline {
		return &Roofline{Operators: []RooflineOperator{
			{Name: "aten::_scaled_dot_product_" + attention + "_attention", Shapes: "[8]", NS: 4 * ns, BoundNS: ns},
			{Name: "aten::_scaled_dot_product_" + attention + "_attention_backward", Shapes: "[8]", NS: 2 * ns, BoundNS: ns},
			{Name: norm, Shapes: "[8]", NS: ns, BoundNS: ns}, {Name: "aten::native_layer_norm", Shapes: "[8]", NS: ns, BoundNS: ns},
		}}
	}
	want := []BoundChange{
		{"aten::_scaled_dot_product_efficient_attention", "[8]", 400, 40, 0.25, 0.25, "", ""},
		{"aten::_scaled_dot_product_efficient_attention_backward", "[8]", 200, 20, 0.5, 0.5, "", ""},
		{"aten::cudnn_batch_norm", "[8]", 100, 10, 1, 1, "", ""},
		{"aten::native_layer_norm", "[8]", 100, 10, 1, 1, "", ""},
	}
	if diff := cmp.Diff(want, boundChanges(of("efficient", "aten::cudnn_batch_norm", 100), of("flash", "aten::miopen_batch_norm", 10))); diff != "" {
		t.Error(diff)
	}
}

// An attention that one side computes by a fused kernel and the other by products is one operator with one time on each
// side; a product of the same shapes outside of it is another. Time without a cost is there by its name.
func TestBoundChangesOfAttention(t *testing.T) {
	before := &Roofline{Operators: []RooflineOperator{
		{Name: "aten::_scaled_dot_product_flash_attention", Shapes: "[2, 4, 8, 16]", Within: "[2, 4, 8, 16]", NS: 100, BoundNS: 50, Kernel: "flash"},
		{Name: "aten::mm", Shapes: "[8, 8]", NS: 30, BoundNS: 15, Kernel: "nvjet"},
	}, Unmodelled: []UnmodelledRuntime{{Name: "copies", Reason: "r", NS: 7}}}
	after := &Roofline{Operators: []RooflineOperator{
		{Name: "aten::bmm", Shapes: "[8, 8, 16]", Within: "[2, 4, 8, 16]", NS: 200, BoundNS: 20, Kernel: "Cijk"},
		{Name: "aten::_softmax", Shapes: "[8, 8, 8]", Within: "[2, 4, 8, 16]", NS: 50, BoundNS: 30, Kernel: "softmax"},
		{Name: "aten::mm", Shapes: "[8, 8]", NS: 60, BoundNS: 15, Kernel: "Cijk"},
	}, Unmodelled: []UnmodelledRuntime{{Name: "copies", Reason: "r", NS: 9}, {Name: "k", Reason: "r", NS: 4}}}
	want := []BoundChange{
		{"aten::scaled_dot_product_attention", "[2, 4, 8, 16]", 100, 250, 0.5, 0.2, "flash", "Cijk"},
		{"aten::mm", "[8, 8]", 30, 60, 0.5, 0.25, "nvjet", "Cijk"},
		{"k", "", 0, 4, 0, 0, "", ""},
		{"copies", "", 7, 9, 0, 0, "", ""},
	}
	if diff := cmp.Diff(want, boundChanges(before, after)); diff != "" {
		t.Error(diff)
	}
	after.Operators = after.Operators[2:] // no attention after: its row stays
	if got := boundChanges(before, after); got[0].Name != "aten::_scaled_dot_product_flash_attention" || got[0].NewNS != 0 {
		t.Errorf("%+v", got[0])
	}
}

// Operators are matched by name and shapes; calls that differ in strides add up, and lose the share where one has no bound.
func TestBoundChanges(t *testing.T) {
	before := &Roofline{Operators: []RooflineOperator{
		{Name: "aten::mm", Shapes: "[8, 8]", NS: 100, BoundNS: 40}, {Name: "aten::mm", Shapes: "[8, 8]", NS: 300, BoundNS: 60},
		{Name: "aten::add", Shapes: "[8]", NS: 50, BoundNS: 25}, {Name: "aten::add", Shapes: "[8]", NS: 50},
	}}
	after := &Roofline{Operators: []RooflineOperator{{Name: "aten::mm", Shapes: "[8, 8]", NS: 100, BoundNS: 50}, {Name: "aten::mul", Shapes: "[8]", NS: 10, BoundNS: 5}}}
	want := []BoundChange{
		{"aten::mm", "[8, 8]", 400, 100, 0.25, 0.5, "", ""},
		{"aten::add", "[8]", 100, 0, 0, 0, "", ""},
		{"aten::mul", "[8]", 0, 10, 0, 0.5, "", ""},
	}
	if diff := cmp.Diff(want, boundChanges(before, after)); diff != "" {
		t.Error(diff)
	}
	c := Comparison{Bounds: want}
	if old, now := c.BoundShares(); old != 0.25 || now != 0.5 { // of aten::mm, which both sides have
		t.Errorf("the operators reach %v and %v of their bounds", old, now)
	}
	if boundChanges(before, nil) != nil {
		t.Error("a side without shapes is compared")
	}
}
