//go:build linux && !gorgonia && !race

package cuda

import (
	"testing"

	"github.com/ebitengine/purego"
)

// BenchmarkLaunchPath is a whole launch with the driver's work taken out: the
// checks, the copy of the arguments, the way into C with all eleven of
// cuLaunchKernel's arguments, a C function that returns its first argument's
// absolute value (0: success), and the way back.
func BenchmarkLaunchPath(b *testing.B) {
	k := newStep(b)
	labs, err := purego.Dlsym(purego.RTLD_DEFAULT, "labs")
	if err != nil {
		b.Fatal(err)
	}
	f, calls := k.mix.(*kernelFunc), new(caller)
	f.h = 0
	f.launch = func(l *launch) Result { return calls.callLaunch(labs, l, 11) }
	bench(b, func() error { return k.main.Launch(k.mix, 16, &k.args) })
}
