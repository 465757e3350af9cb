//go:build !linux

package record

import "errors"

func mayMap(string) error { return errors.ErrUnsupported }
