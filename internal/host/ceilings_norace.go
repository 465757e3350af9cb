//go:build !race

package host

// largestCopy is the most of each buffer of the copy ceiling, bytes.
const largestCopy = 256 << 20
