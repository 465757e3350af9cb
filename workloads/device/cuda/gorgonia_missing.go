//go:build gorgonia && !(linux && cgo)

package cuda

const implementation = "none"

// openDriver of a build that asked for gorgonia.org/cu where it cannot be.
func openDriver(string) (*driver, error) {
	return nil, failed("gorgonia.org/cu needs Linux and cgo").WithFix("build without -tags gorgonia")
}
