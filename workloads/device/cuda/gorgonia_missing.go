//go:build gorgonia && !(linux && cgo)

package cuda

const implementation = "none"

// openDriver fails, because gorgonia.org/cu needs Linux and cgo.
func openDriver(string) (*driver, error) {
	return nil, openError("gorgonia.org/cu needs Linux and cgo").WithFix("build without -tags gorgonia")
}
