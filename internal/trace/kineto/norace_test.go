//go:build !race

package kineto

const RaceDetector = false
