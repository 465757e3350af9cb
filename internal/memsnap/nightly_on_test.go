//go:build nightly

package memsnap

// nightly has a test replay a hundred thousand free blocks, which takes seconds.
const nightly = true
