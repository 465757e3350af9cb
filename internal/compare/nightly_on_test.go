//go:build nightly

package compare_test

// nightly has tests run every setting and every trial of theirs, which takes minutes.
const nightly = true
