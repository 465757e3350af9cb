package cuda

import (
	"testing"

	"github.com/gpuprof/gpuprof/workloads/testkit/cudatest"
)

// A driver that takes the program's machine code compiles nothing; one that refuses it gets the
// PTX; an error that is no refusal is not tried again.
func TestMachineCodeFirst(t *testing.T) {
	for _, c := range []struct {
		name, config     string
		carried, modules int
		fails            bool
	}{
		{"taken", "machine_code=1", 1, 1, false},
		{"of another generation", "machine_code=1;cc=12.0", 0, 1, false},
		{"of the same major, newer minor", "machine_code=1;cc=8.6", 1, 1, false},
		{"refused", "machine_code=0", 0, 1, false},
		{"out of memory", "machine_code=1;fail=cuModuleLoadDataEx@1:2", 0, 0, true},
		{"an image the driver cannot read", "machine_code=1;fail=cuModuleLoadDataEx@1:200", 0, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			lib, simulated := cudatest.Driver(t, c.config)
			d, err := Open(Options{Library: lib, AllowSimulated: simulated})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			d.takesCode = true
			f, err := d.loadInstrument("spin")
			if (err != nil) != c.fails {
				t.Fatal(err)
			}
			if n, carried, _ := d.LoadTime(); n != c.modules || carried != c.carried {
				t.Errorf("%d modules, %d of them machine code; want %d and %d", n, carried, c.modules, c.carried)
			}
			if err == nil && f == nil {
				t.Error("no kernel")
			}
		})
	}
}
