//go:build !race

package kineto_test

import (
	"math"
	"testing"
)

func TestEveryCut(t *testing.T) {
	t.Parallel()
	testCuts(t, math.MaxInt)
}
