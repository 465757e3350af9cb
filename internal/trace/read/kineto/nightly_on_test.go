//go:build nightly

package kineto_test

// nightly has tests run every setting and every trial of theirs, which takes minutes.
const nightly = true
