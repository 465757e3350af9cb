package pool

import (
	"cmp"
	"errors"
	"math/bits"
)

// The sizes of PyTorch's CUDACachingAllocator (c10/core/AllocatorConfig.h), in bytes.
const (
	grain       = 512      // sizes are rounded up to it
	smallMost   = 1 << 20  // the largest small request
	smallWhole  = 2 << 20  // a segment of small blocks
	mediumMost  = 10 << 20 // from here on a request has a segment of its own
	mediumWhole = 20 << 20 // a segment of requests below that, if large_segment_size_mb says nothing else
	largeGrain  = 2 << 20  // segments of one request are rounded up to it
	oversize    = 20 << 20 // with MaxSplit: by so much a block is too large for a large request
)

// errNoRoom is the error of a request for which nothing could be returned, errLimit that of
// one beyond Allowed.
var (
	errNoRoom = errors.New("too little cached memory is large enough")
	errLimit  = errors.New("the process may reserve no more")
)

// Order is what decides among idle blocks of equal size, the least first.
type Order uint8

// The orders of PyTorch's versions.
const (
	BySegment Order = iota // from 2.13 on: the number of the segment, then the address
	ByBlock                // 2.12: the number of the block
	ByAddress              // up to 2.11
)

func (o Order) String() string { return [...]string{"segment", "block", "address"}[o] }

// Settings are the allocator's options, each off where it is zero.
type Settings struct {
	MaxSplit    int64      // max_split_size_mb, bytes: a block of at least so many is never cut
	MaxRounding int64      // max_non_split_rounding_mb, bytes; 0: 20 MiB
	Medium      int64      // large_segment_size_mb, bytes: a segment of requests from 1 to 10 MiB; 0: 20 MiB
	Roundup     [16]uint64 // roundup_power2_divisions: of the powers of two from 1 MiB on
	Pages       Pager      // expandable_segments: who has their memory
	// Allowed is how much the process may reserve (set_per_process_memory_fraction), bytes.
	// Collect is garbage_collection_threshold, the part of it above which whole idle
	// segments are returned, the longest unused first. It does nothing without Allowed.
	Allowed int64
	Collect float64
	Order   Order
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

// Segment is what the driver is asked for at most where no idle block serves a request,
// bytes.
func (s *Settings) Segment(request int64) int64 {
	size := s.Round(request)
	if s.Pages != nil {
		return up(size, s.page(size <= smallMost))
	}
	return s.whole(size)
}

// whole is the size of a segment for a request, rounded.
func (s *Settings) whole(size int64) int64 {
	switch {
	case size <= smallMost:
		return smallWhole
	case size < mediumMost:
		return s.medium()
	}
	return up(size, largeGrain)
}

func (s *Settings) medium() int64 { return cmp.Or(s.Medium, mediumWhole) }

// page is what an expandable segment grows by, bytes.
func (s *Settings) page(small bool) int64 {
	if small {
		return smallWhole
	}
	return s.medium()
}

// bySize sorts idle blocks: best fit is the first that is large enough.
func bySize(a, b *Block) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Size, b.Size), cmp.Compare(a.tie, b.tie), cmp.Compare(a.Offset, b.Offset))
}

// byPlace sorts holes.
func byPlace(a, b *Block) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Offset, b.Offset))
}

// tie is what decides between an idle block and others of its size.
func (s *Settings) tie(b *Block) uint64 {
	switch s.Order {
	case ByBlock:
		return b.number
	case ByAddress:
		return b.base + uint64(b.Offset)
	}
	return uint64(b.Segment) + 1
}

// fits says that MaxSplit lets a request have a block.
func (s *Settings) fits(block, size int64) bool {
	switch {
	case s.MaxSplit == 0:
		return true
	case size < s.MaxSplit:
		return block < s.MaxSplit
	}
	return block < size+cmp.Or(s.MaxRounding, oversize)
}

// worthCutting says that the rest of a block beyond size becomes one of its own.
func (s *Settings) worthCutting(b *Block, size int64) bool {
	rest := b.Size - size
	if b.of.small || s.Pages != nil {
		return rest >= grain
	}
	return rest > smallMost && (s.MaxSplit == 0 || size < s.MaxSplit)
}
