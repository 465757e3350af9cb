//go:build nightly

package gruflow

// nightly has tests run every setting and every trial of theirs, which takes minutes.
const nightly = true
