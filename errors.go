package gpuprof

import (
	"errors"
	"fmt"
	"strings"
)

// The kinds of failure, each with an exit code (cmd/gpuprof/internal/cli/exit.go). Errorf attaches a kind: errors.Is
// finds it, and the message does not contain it.
var (
	// ErrUsage is an impossible request: an unknown name, a value out of range, a missing input, an unwritable output.
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

// Error is a failure: Err has action, object and cause, Fix what to do.
type Error struct {
	Kind error // one of the kinds above; nil if the cause has one
	Err  error // "opening run.json: permission denied"
	Fix  string
}

func (e *Error) Error() string { return withFix(e.Err.Error(), e.Fix) }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Kind == nil {
		return []error{e.Err}
	}
	return []error{e.Kind, e.Err}
}

// WithFix sets the fix, formatted as by fmt.Sprintf.
func (e *Error) WithFix(format string, args ...any) *Error {
	e.Fix = fmt.Sprintf(format, args...)
	return e
}

// Errorf is fmt.Errorf with one of the kinds above; nil keeps the kind of the wrapped error.
func Errorf(kind error, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Unfit is a reason why a call cannot use an argument, with the fix. The zero value is no reason.
type Unfit struct{ Why, Fix string }

// Of returns ErrUsage with a message, formatted as by fmt.Errorf, to which it appends the reason: "copying %d bytes:
// the source".
func (u Unfit) Of(format string, args ...any) error {
	return &Error{Kind: ErrUsage, Err: fmt.Errorf(format+" %s", append(args, u.Why)...), Fix: u.Fix}
}

// FixOf splits an error's text into the reason and the fix; fix is "" without one. Of several nested fixes it is the
// outermost.
func FixOf(err error) (reason, fix string) {
	reason = err.Error()
	for e, ok := errors.AsType[*Error](err); ok; e, ok = errors.AsType[*Error](e.Err) {
		if e.Fix != "" {
			return strings.TrimSuffix(reason, "; "+e.Fix), e.Fix
		}
	}
	return reason, ""
}

// Unreadable returns an ErrInput with action, cause and fix for a file whose content cannot be used. A cause with a fix
// of its own keeps that fix.
func Unreadable(doing string, err error, fix string) error {
	if _, own := errors.AsType[interface {
		error
		Fix() string
	}](err); own {
		return Errorf(ErrInput, "%s: %w", doing, err)
	}
	return Errorf(ErrInput, "%s: %w", doing, err).WithFix("%s", fix)
}
