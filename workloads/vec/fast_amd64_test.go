package vec

// useGeneric switches the assembly off until the returned function is called.
func useGeneric() func() {
	was := fast
	fast = false
	return func() { fast = was }
}
