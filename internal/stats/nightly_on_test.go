//go:build nightly

package stats_test

// nightly has a test draw every trial of its own, which takes seconds.
const nightly = true
