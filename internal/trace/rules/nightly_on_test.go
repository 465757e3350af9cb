//go:build nightly

package rules_test

// nightly: sweeps are whole.
const nightly = true
