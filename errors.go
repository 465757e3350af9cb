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

// Short is why a request was refused for lack of memory: the refusal, or the
// failure of a device that does not work any more, which has no memory left for
// that reason. Such a one is asked for a megabyte, to say what failed.
func Short(d Device, refusal error) error {
	if d.Memory().Available > 0 {
		return refusal
	}
	b, err := d.Alloc(1<<20, OnDevice)
	switch {
	case err == nil:
		err = b.Free()
	case errors.Is(err, ErrMemory):
		return refusal
	}
	if err != nil {
		return err
	}
	return refusal
}

// Errorf is fmt.Errorf that also marks the error as one of the kinds above.
func Errorf(kind error, format string, args ...any) error {
	return &kindError{kind, fmt.Errorf(format, args...)}
}

// Unreadable is the ErrInput of a file whose content cannot be used: what was being
// done, the cause, and what to do about it. A TooLarge says itself what to do.
func Unreadable(doing string, err error, fix string) error {
	if _, large := errors.AsType[*TooLarge](err); large {
		return Errorf(ErrInput, "%s: %w", doing, err)
	}
	return Errorf(ErrInput, "%s: %w; %s", doing, err, fix)
}
