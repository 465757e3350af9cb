package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProduct(t *testing.T) {
	axes, err := ParseSets([]string{"a=1,2", "b=x=y.xyz", "c=u,v"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range combineAxes(axes) {
		got = append(got, Describe(s))
	}
	want := []string{"a=1 b=x=y.xyz c=u", "a=1 b=x=y.xyz c=v", "a=2 b=x=y.xyz c=u", "a=2 b=x=y.xyz c=v"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
