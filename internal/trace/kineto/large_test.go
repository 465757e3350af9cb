//go:build !race

package kineto

import "testing"

// Under the race detector reading takes ten times as long, and smaller traces pass through
// the same goroutines.

func TestLargeAgainstEncodingJSON(t *testing.T) { againstEncodingJSON(t, 1) }

func TestLargeTruncatedCompression(t *testing.T) { truncatedCompression(t, 3<<20) }
