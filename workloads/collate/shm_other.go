//go:build unix && !linux

package collate

import "os"

// anonymousFile returns a temporary file without a name.
func anonymousFile() (*os.File, error) {
	f, err := os.CreateTemp("", "gpuprof-collate-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	return f, nil
}

func reserveFile(f *os.File, size int64) error { return f.Truncate(size) }
