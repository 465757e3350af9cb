package analyze_test

import (
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
)

func TestUpgrade(t *testing.T) {
	text := `{"schema_version":"2.0.0","step_old_ns":1,"old":{"findings":[{"rule":"launch-bound","knob":"torch.compile(model)","command":"measure","claim_ns":5}]},"new":{"findings":[{"rule":"launch-bound","pytorch":"new line"}]}}`
	c, err := analyze.DecodeComparison([]byte(text), "x.json")
	if err != nil {
		t.Fatal(err)
	}
	if f := c.Old.Findings[0]; f.PyTorch != "torch.compile(model)" || f.Knob != "" || f.ClaimNS != 5 {
		t.Errorf("an old finding is %+v", f)
	}
	if f := c.New.Findings[0]; f.PyTorch != "new line" {
		t.Errorf("a new finding is %+v", f)
	}
	// A side may be missing in a damaged file.
	if _, err := analyze.DecodeComparison([]byte(`{"schema_version":"2.0.0","step_old_ns":1}`), "x.json"); err != nil {
		t.Error(err)
	}
}
