//go:build !nightly

package bits

// nightly is set by the build tag of that name. Without it TestBits takes a fixed sample of the cases.
const nightly = false
