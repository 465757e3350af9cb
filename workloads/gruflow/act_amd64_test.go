package gruflow

import (
	"testing"
	"unsafe"
)

// useGeneric switches the assembly off until the returned function is called.
func useGeneric() func() {
	was := fast
	fast = false
	return func() { fast = was }
}

// The assembly reads the fields by these places.
func TestKeptCellsPlaces(t *testing.T) {
	var c keptCells
	for name, at := range map[string][2]uintptr{
		"gx": {unsafe.Offsetof(c.gx), 0}, "gh": {unsafe.Offsetof(c.gh), 24}, "kept": {unsafe.Offsetof(c.kept), 48},
		"before": {unsafe.Offsetof(c.before), 72}, "after": {unsafe.Offsetof(c.after), 96}, "dout": {unsafe.Offsetof(c.dout), 120},
		"dh": {unsafe.Offsetof(c.dh), 144}, "chain": {unsafe.Offsetof(c.chain), 168}, "back": {unsafe.Offsetof(c.back), 192},
		"stride": {unsafe.Offsetof(c.stride), 216}, "keptStride": {unsafe.Offsetof(c.keptStride), 224},
	} {
		if at[0] != at[1] {
			t.Errorf("%s lies at %d, and is read at %d", name, at[0], at[1])
		}
	}
}
