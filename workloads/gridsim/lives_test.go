package gridsim

import (
	"slices"
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device/host"
)

// What operations take and give by hand equals what deriveLives derives, in every setting.
func TestLivesEqualTheLists(t *testing.T) {
	tried, compared := 0, 0
	for _, law := range []string{"mlp", "diffuse", "walk"} {
		for _, impl := range []string{"fused", "gemm", "split"} {
			for _, chunk := range []string{"all", "1", "5", "12"} {
				for _, normalise := range []string{"on", "off"} {
					c := resolve(t, "small", append(tinyGrid("law="+law), "impl="+impl, "chunk="+chunk, "normalise="+normalise)...)
					d := openHost(t, host.Options{})
					if New().Refuse(d.Info(), c.Knobs) != nil {
						continue
					}
					s, err := newSession(d, c)
					if err != nil {
						t.Fatal(err)
					}
					tried++
					derived := slices.Clone(s.ops)
					deriveLives(derived)
					for i, o := range s.ops {
						compared++
						if !slices.Equal(derived[i].take, o.take) || !slices.Equal(derived[i].give, o.give) {
							t.Errorf("%v: operation %d %s takes %v and gives %v, derived %v and %v", c.Knobs, i, o.name, o.take, o.give, derived[i].take, derived[i].give)
						}
					}
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
	if t.Log(tried, "settings,", compared, "operations"); tried < 20 {
		t.Errorf("only %d settings were tried", tried)
	}
}
