//go:build !amd64

package vec

func useGeneric() func() { return func() {} }
