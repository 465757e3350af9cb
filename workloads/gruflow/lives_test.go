package gruflow

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gpuprof/gpuprof"
)

// If a block that outlives its group were given with the group, a later block would take its memory, and the check
// fails.
func TestEarlyGivesFail(t *testing.T) {
	for _, set := range []string{"steps=3,flows=30", "impl=plain,steps=2,precision=bf16,flows=30", "pass=train,window=2", "pass=train,window=2,precision=tf32"} {
		t.Run(set, func(t *testing.T) {
			settings := strings.Split(set, ",")
			if strings.Contains(set, "pass=train") {
				settings = append(slices.Clone(lessonSize), settings...)
			}
			s := openSession(t, "small", settings...)
			early := 0
			for k := range s.slots {
				for i := range s.slots[k].groups {
					g := &s.slots[k].groups[i]
					if !slices.Equal(g.take, g.give) {
						early++
					}
					g.give = g.take
				}
			}
			if early == 0 {
				t.Fatal("no block outlives its group")
			}
			checks, err := s.Check(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(checks, func(c gpuprof.Check) bool { return !c.Pass }) {
				t.Errorf("every check passes: %+v", checks)
			}
		})
	}
}
