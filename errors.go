package gpuprof

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure, one exit code each (see cmd/gpuprof/internal/cli/exit.go). Wrap
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

// Error is a failure: what was being done, to what, and the cause, and apart from
// them what to do about it.
type Error struct {
	Kind error // one of those above; nil where the cause has one
	Err  error // "opening run.json: permission denied"
	Fix  string
}

func (e *Error) Error() string { return withFix(e.Err.Error(), e.Fix) }

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// WithFix adds what to do about the failure, as fmt.Sprintf.
func (e *Error) WithFix(format string, args ...any) *Error {
	e.Fix = fmt.Sprintf(format, args...)
	return e
}

// Errorf is fmt.Errorf that also marks the error as one of the kinds above; nil
// leaves it with the kind of what it wraps.
func Errorf(kind error, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Unfit is the reason for which a call cannot use an argument, and its fix; the zero value means that there is none.
type Unfit struct{ Why, Fix string }

// Of returns the error of the call, ErrUsage. The format, as fmt.Errorf's, ends where the reason follows: "copying
// %d bytes: the source".
func (u Unfit) Of(format string, args ...any) error {
	return &Error{Kind: ErrUsage, Err: fmt.Errorf(format+" %s", append(args, u.Why)...), Fix: u.Fix}
}

// FixOf splits a failure's text into the reason and the fix of the outermost error that has one. fix is empty if
// none has.
func FixOf(err error) (reason, fix string) {
	reason = err.Error()
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.Err) {
		if e.Fix != "" {
			return strings.TrimSuffix(reason, "; "+e.Fix), e.Fix
		}
	}
	return reason, ""
}

// Unreadable returns the ErrInput of a file whose content cannot be used: the action, the cause and the fix. A cause
// with a fix of its own keeps that fix.
func Unreadable(doing string, err error, fix string) error {
	if _, own := errors.AsType[interface {
		error
		Fix() string
	}](err); own {
		return Errorf(ErrInput, "%s: %w", doing, err)
	}
	return Errorf(ErrInput, "%s: %w", doing, err).WithFix("%s", fix)
}
