package gruflow

import (
	"slices"
	"strings"
	"testing"
)

// What groups take and give by hand equals what deriveLives derives, in every kind of step.
func TestLivesEqualTheLists(t *testing.T) {
	compared := 0
	for _, set := range []string{
		"impl=fused", "impl=plain", "impl=plain,steps=3,layers=3", "impl=fused,steps=3,precision=bf16", "impl=plain,precision=fp16", "precision=tf32", "deterministic=off",
		"tape=saved", "tape=saved,precision=bf16", "pass=train,window=3", "pass=train,window=4,checkpoint=2,layers=3", "pass=train,window=3,precision=tf32,accumulate=2",
		"pass=train,window=2,precision=fp16,layers=3", "pass=train,window=3,layers=1,steps=2,precision=bf16,deterministic=off",
	} {
		s := openSession(t, "small", append([]string{"flows=8", "hidden=8", "input=5", "depth=5"}, strings.Split(set, ",")...)...)
		for k := range s.slots {
			derived := slices.Clone(s.slots[k].groups)
			deriveLives(derived)
			for i, g := range s.slots[k].groups {
				compared++
				slices.Sort(g.give) // the order in which blocks are given does not matter
				if !slices.Equal(derived[i].take, g.take) || !slices.Equal(derived[i].give, g.give) {
					t.Errorf("%s: group %d of stage %d takes %v and gives %v, derived %v and %v", set, i, g.stage, g.take, g.give, derived[i].take, derived[i].give)
				}
			}
		}
	}
	t.Log(compared, "groups")
}
