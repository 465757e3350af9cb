//go:build nightly

package op

// nightly has tests run every trial of theirs, which takes minutes.
const nightly = true
