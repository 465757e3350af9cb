//go:build nightly

package history

// nightly has a test write as many sessions as the store promises to keep, a minute under the race detector.
const nightly = true
