//go:build nightly

package bits

// nightly has TestBits run every case.
const nightly = true
