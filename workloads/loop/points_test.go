package loop

import "testing"

// A long run keeps a bounded number of points, spread evenly over all of it.
func TestPointsAreThinned(t *testing.T) {
	for _, steps := range []int{1, MostPoints, MostPoints + 1, 3 * MostPoints, 10*MostPoints + 7} {
		var p Points[int]
		for i := range steps {
			if p.Due() {
				p.Keep(i)
			}
		}
		all, every := p.All()
		if len(all) > MostPoints || len(all) < min(steps, MostPoints/2) || all[0] != every-1 || all[len(all)-1] < steps-every {
			t.Errorf("%d steps: %d points from %d to %d", steps, len(all), all[0], all[len(all)-1])
		}
		for i := 1; i < len(all); i++ {
			if d := all[i] - all[i-1]; d != every {
				t.Fatalf("%d steps: point %d is %d steps after the one before, every %d", steps, i, d, every)
			}
		}
	}
}
