package gpuprof

import (
	"errors"
	"fmt"
)

// The kinds of failure, one exit code each (see cmd/gpuprof/exit.go). Wrap
// them with Errorf so that errors.Is finds the kind and the sentence stays
// free of it.
var (
	// ErrUsage is a request that could never work: an unknown name, a value
	// out of range, a missing input file, an output that cannot be written.
	ErrUsage = errors.New("usage error")
	// ErrInput is a file or structure whose content cannot be used.
	ErrInput = errors.New("input error")
	// ErrMemory is an allocation that was refused.
	ErrMemory = errors.New("out of memory")
	// ErrDevice is a device that failed or is missing.
	ErrDevice = errors.New("device error")
	// ErrCheck is an implementation that disagrees with its reference.
	ErrCheck = errors.New("check failed")
)

type kindError struct {
	kind error
	err  error
}

func (e *kindError) Error() string   { return e.err.Error() }
func (e *kindError) Unwrap() []error { return []error{e.kind, e.err} }

// Errorf is fmt.Errorf that also marks the error as one of the kinds above.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Errorf(format, args...)}
}
