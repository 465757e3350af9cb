//go:build !gorgonia

package cuda

import "errors"

// implementation names what fills the driver table.
const implementation = "purego"

// openDriver loads the driver's library, library if it is not empty, and fills
// the table. It does not initialise the driver.
func openDriver(library string) (*driver, error) {
	paths := driverPaths()
	if library != "" {
		paths = []string{library}
	}
	h, path, err := openFirst(paths)
	if errors.Is(err, errAbsent) {
		return nil, failed("the NVIDIA driver's library %w", err).WithFix("%s", noDriver)
	}
	if err != nil {
		return nil, failed("%w", err).WithFix("reinstall the NVIDIA driver")
	}
	d := &driver{path: path, simulated: symbol(h, simulatedSymbol) != 0}
	if err := fill(d, h); err != nil {
		return nil, err
	}
	return d, nil
}
