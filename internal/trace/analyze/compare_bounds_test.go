package analyze

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Operators are matched by name and shapes; calls that differ in strides add up, and lose the share where one has no bound.
func TestBoundChanges(t *testing.T) {
	before := &Roofline{Operators: []RooflineOperator{
		{Name: "aten::mm", Shapes: "[8, 8]", NS: 100, BoundNS: 40}, {Name: "aten::mm", Shapes: "[8, 8]", NS: 300, BoundNS: 60},
		{Name: "aten::add", Shapes: "[8]", NS: 50, BoundNS: 25}, {Name: "aten::add", Shapes: "[8]", NS: 50},
	}}
	after := &Roofline{Operators: []RooflineOperator{{Name: "aten::mm", Shapes: "[8, 8]", NS: 100, BoundNS: 50}, {Name: "aten::mul", Shapes: "[8]", NS: 10, BoundNS: 5}}}
	want := []BoundChange{
		{"aten::mm", "[8, 8]", 400, 100, 0.25, 0.5},
		{"aten::add", "[8]", 100, 0, 0, 0},
		{"aten::mul", "[8]", 0, 10, 0, 0.5},
	}
	if diff := cmp.Diff(want, boundChanges(before, after)); diff != "" {
		t.Error(diff)
	}
	if boundChanges(before, nil) != nil {
		t.Error("a side without shapes is compared")
	}
}
