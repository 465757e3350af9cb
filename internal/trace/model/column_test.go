package model

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestColumn: a column is read as it was written, also where its differences overflow, and
// a damaged one is an error.
func TestColumn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Column(rapid.SliceOf(rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{0, math.MaxInt64, math.MinInt64}))).Draw(t, "numbers"))
		text, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Column
		if err := json.Unmarshal(text, &got); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %v, %v", text, got, err)
		}
	})
	for _, bad := range []string{`"x"`, `"gA=="`, `12`, `{}`, `"//////////////8="`} {
		var c Column
		if err := json.Unmarshal([]byte(bad), &c); err == nil {
			t.Errorf("%s was read as %v", bad, c)
		}
	}
}
