//go:build !nightly

package kserve

// nightly is set by the build tag of that name. Without it a test that sweeps takes a fixed sample.
const nightly = false
