//go:build !nightly

package stats_test

// nightly is set by the build tag of that name. Without it a test of many trials takes a fixed sample.
const nightly = false
