//go:build !linux && !darwin

package cuda

// takePages returns n bytes of the Go heap, which does not move; the buffer keeps them alive until Free.
func takePages(n int) ([]byte, error) { return make([]byte, n), nil }

func givePages([]byte) error { return nil }
