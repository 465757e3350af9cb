//go:build !gorgonia

package cuda

import "github.com/gpuprof/gpuprof/internal/dynlib"

// implementation names the binding that fills the driver table.
const implementation = "purego"

// openDriver loads the installed driver's library, or the given file, and fills the table without initialising.
func openDriver(library string) (*driver, error) {
	paths := dynlib.Places(driverName())
	if library != "" {
		paths = []string{library}
	}
	h, path, err := dynlib.First(paths)
	if err != nil {
		return nil, notLoaded(err)
	}
	d := &driver{path: path, simulated: dynlib.Symbol(h, simulatedSymbol) != 0}
	if err := fillDriver(d, h); err != nil {
		return nil, err
	}
	return d, nil
}
