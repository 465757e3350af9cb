package trace_test

import (
	"encoding/json"
	"testing"

	"github.com/gpuprof/gpuprof/internal/trace"
)

func TestUpgrade(t *testing.T) {
	var c trace.Comparison
	text := `{"old":{"findings":[{"rule":"launch-bound","knob":"torch.compile(model)","command":"measure","claim_ns":5}]},"new":{"findings":[{"rule":"launch-bound","pytorch":"new line"}]}}`
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	c.Upgrade()
	if f := c.Old.Findings[0]; f.PyTorch != "torch.compile(model)" || f.Knob != "" || f.ClaimNS != 5 {
		t.Errorf("an old finding is %+v", f)
	}
	if f := c.New.Findings[0]; f.PyTorch != "new line" {
		t.Errorf("a new finding is %+v", f)
	}
	(&trace.Comparison{}).Upgrade() // a side may be missing in a damaged file
}
