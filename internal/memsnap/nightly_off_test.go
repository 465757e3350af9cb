//go:build !nightly

package memsnap

// nightly is set by the build tag of that name. Without it a test of many blocks takes a fixed sample.
const nightly = false
