//go:build !amd64

package gruflow

func useGeneric() func() { return func() {} }
