//go:build !nightly

package op

// nightly is set by the build tag of that name. Without it a test that repeats takes a fixed sample.
const nightly = false
