//go:build !race

package host

// largestCopy is the most of each buffer of the copy ceiling where Options names none, bytes.
const largestCopy = 256 << 20
