package guides

import (
	"runtime"
	"strconv"
	"testing"
)

// Under load the sender has a CPU of the host to itself, on both sides: the service would be measured beside it.
func TestSenderHasACPU(t *testing.T) {
	found := 0
	for _, c := range Claims() {
		for _, ab := range c.AB {
			if !ab.Latency {
				continue
			}
			found++
			want := ""
			if ab.On == "host" {
				want = strconv.Itoa(max(1, runtime.NumCPU()-1))
			}
			if ab.A["threads"] != want || ab.B["threads"] != want || ab.A["load"] == "" || ab.A["load"] != ab.B["load"] {
				t.Errorf("%s: %v -> %v, want threads=%s", c.ID, ab.A, ab.B, want)
			}
		}
	}
	if found != 8 {
		t.Errorf("%d comparisons under load, want four on each kind of device", found)
	}
}
