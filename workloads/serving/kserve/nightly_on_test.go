//go:build nightly

package kserve

// nightly has tests run every setting and every trial of theirs, which takes minutes.
const nightly = true
