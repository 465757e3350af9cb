//go:build !nightly

package history

// nightly is set by the build tag of that name. Without it a test of many sessions takes a fixed sample.
const nightly = false
