package pool

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
)

// The sizes of PyTorch's CUDACachingAllocator (c10/core/AllocatorConfig.h), in bytes.
const (
	grain       = 512      // sizes are rounded up to it
	smallMost   = 1 << 20  // the largest small request
	smallWhole  = 2 << 20  // a segment of small blocks
	mediumMost  = 10 << 20 // from here on a request has a segment of its own
	mediumWhole = 20 << 20 // a segment of requests below that
	largeGrain  = 2 << 20  // segments of one request are rounded up to it
	oversize    = 20 << 20 // with MaxSplit: by so much a block is too large for a large request
)

// errNoRoom is the error of a request for which nothing could be returned.
var errNoRoom = errors.New("too little cached memory is large enough")

// Settings are the allocator's options, each off where it is zero.
type Settings struct {
	MaxSplit int64      // max_split_size_mb, bytes: a block of at least so many is never cut
	Roundup  [16]uint64 // roundup_power2_divisions: of the powers of two from 1 MiB on
	Pages    Pager      // expandable_segments: who has their memory
	// Descending takes the last segment among idle blocks of equal size, not the first.
	// PyTorch before 2.13 takes the lowest address, and a driver hands addresses out in
	// either direction.
	Descending bool
}

// Round is what a request takes: round_size of c10/cuda/CUDACachingAllocator.cpp. A large
// block can be up to 1 MiB larger, as such a rest is not cut off.
func (s *Settings) Round(bytes int64) int64 {
	if bytes < grain {
		return grain
	}
	power := bits.Len64(uint64(bytes)) - 1
	if d := s.Roundup[min(max(power-20, 0), 15)]; d > 1 && bytes/grain > int64(min(d, 1<<40)) {
		if bytes == 1<<power {
			return bytes
		}
		fine := bits.Len64(d) - 1
		if fine > power {
			return 1 << (power + 1)
		}
		return up(bytes, 1<<(power-fine))
	}
	return up(bytes, grain)
}

// up rounds up to a multiple.
func up(n, to int64) int64 { return (n + to - 1) / to * to }

// segmentFor is the size of a new segment for a request, rounded.
func segmentFor(size int64) int64 {
	switch {
	case size <= smallMost:
		return smallWhole
	case size < mediumMost:
		return mediumWhole
	}
	return up(size, largeGrain)
}

// order sorts idle blocks: best fit is the first that is large enough.
func (s *Settings) order(a, b *Block) int {
	if c := lists(a, b); c != 0 {
		return c
	}
	bySegment := cmp.Compare(a.Segment, b.Segment)
	if s.Descending {
		bySegment = -bySegment
	}
	return cmp.Or(cmp.Compare(a.Size, b.Size), bySegment, cmp.Compare(a.Offset, b.Offset))
}

// before is the segment of a block that comes before all of its size.
func (s *Settings) before() int {
	if s.Descending {
		return math.MaxInt
	}
	return -1
}

// fits says that MaxSplit lets a request have a block.
func (s *Settings) fits(block, size int64) bool {
	switch {
	case s.MaxSplit == 0:
		return true
	case size < s.MaxSplit:
		return block < s.MaxSplit
	}
	return block < size+oversize
}

// worthCutting says that the rest of a block beyond size becomes one of its own.
func (s *Settings) worthCutting(b *Block, size int64) bool {
	rest := b.Size - size
	if b.small || s.Pages != nil {
		return rest >= grain
	}
	return rest > smallMost && (s.MaxSplit == 0 || size < s.MaxSplit)
}
