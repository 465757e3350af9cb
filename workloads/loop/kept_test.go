package loop

import (
	"errors"
	"testing"
)

// A value is made once while it is kept, errors are not kept, and never more than Most are.
func TestKept(t *testing.T) {
	made, away := 0, errors.New("away")
	k := Kept[int, int]{Most: 2}
	of := func(key int) int {
		v, err := k.Of(key, func() (int, error) { made++; return 10 * key, nil })
		if err != nil || v != 10*key {
			t.Fatalf("%d of %d, %v", v, key, err)
		}
		return made
	}
	if _, err := k.Of(1, func() (int, error) { return 7, away }); !errors.Is(err, away) {
		t.Errorf("%v", err)
	}
	for i, c := range []struct{ key, made int }{{1, 1}, {1, 1}, {2, 2}, {1, 2}, {2, 2}, {3, 3}, {3, 3}, {1, 4}} {
		if got := of(c.key); got != c.made {
			t.Errorf("after %d questions %d values were made, want %d", i+1, got, c.made)
		}
		if len(k.values) > 2 {
			t.Errorf("%d values are kept", len(k.values))
		}
	}
}
