package pool

import (
	"cmp"
	"errors"
	"math/bits"
)

// Sizes of PyTorch's CUDACachingAllocator (c10/core/AllocatorConfig.h), bytes.
const (
	grain       = 512      // sizes are rounded up to a multiple of it
	smallMost   = 1 << 20  // the largest small request
	smallWhole  = 2 << 20  // a segment of small blocks
	mediumMost  = 10 << 20 // from this size on a request has its own segment
	mediumWhole = 20 << 20 // a segment of smaller requests, unless large_segment_size_mb is set
	largeGrain  = 2 << 20  // segments of one request are rounded up to a multiple of it
	oversize    = 20 << 20 // with MaxSplit, a request of at least MaxSplit gets no block that is larger by this
)

// errNoRoom is the error if no cached memory could be returned for a request; errLimit, if a request exceeds Allowed.
var (
	errNoRoom = errors.New("too little cached memory is large enough")
	errLimit  = errors.New("the process may reserve no more")
)

// Order selects the key of idle blocks of equal size. The allocator chooses the block with the least key.
type Order uint8

// Keys by PyTorch version.
const (
	BySegment Order = iota // PyTorch from 2.13: segment number, then address
	ByBlock                // PyTorch 2.12: block number
	ByAddress              // PyTorch up to 2.11: address
)

func (o Order) String() string { return [...]string{"segment", "block", "address"}[o] }

// Settings has the allocator's options; a zero value turns an option off.
type Settings struct {
	MaxSplit    int64      // max_split_size_mb, bytes: a block of at least this size is never split
	MaxRounding int64      // max_non_split_rounding_mb, bytes; 0: 20 MiB
	Medium      int64      // large_segment_size_mb, bytes: the segment of requests from 1 to 10 MiB; 0: 20 MiB
	Roundup     [16]uint64 // roundup_power2_divisions: by power of two from 1 MiB
	Pages       Pager      // expandable_segments: the provider of their memory
	// Allowed limits the process's reserved memory (set_per_process_memory_fraction), bytes. Collect is
	// garbage_collection_threshold: above this fraction of Allowed, idle segments are returned, those idle for longest
	// first. It has no effect without Allowed.
	Allowed int64
	Collect float64
	Order   Order
}

// Round returns the memory for a request, bytes (round_size of c10/cuda/CUDACachingAllocator.cpp). The block can be up
// to 1 MiB larger, since the allocator does not split off a small rest of a large block.
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
		return roundUp(bytes, 1<<(power-fine))
	}
	return roundUp(bytes, grain)
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// Segment returns the bytes that are requested from the driver if no idle block serves a request.
func (s *Settings) Segment(request int64) int64 {
	size := s.Round(request)
	if s.Pages != nil {
		return roundUp(size, s.pageSize(size <= smallMost))
	}
	return s.segmentSize(size)
}

// segmentSize returns the size of a segment for a rounded request, bytes.
func (s *Settings) segmentSize(size int64) int64 {
	switch {
	case size <= smallMost:
		return smallWhole
	case size < mediumMost:
		return s.mediumSize()
	}
	return roundUp(size, largeGrain)
}

func (s *Settings) mediumSize() int64 { return cmp.Or(s.Medium, mediumWhole) }

// pageSize returns the unit by which an expandable segment grows, bytes.
func (s *Settings) pageSize(small bool) int64 {
	if small {
		return smallWhole
	}
	return s.mediumSize()
}

// compareSize orders idle blocks of a stream by size, so that the first block that is large enough fits best.
func compareSize(a, b *Block) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Size, b.Size), cmp.Compare(a.tie, b.tie), cmp.Compare(a.Offset, b.Offset))
}

func comparePlace(a, b *Block) int {
	return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Offset, b.Offset))
}

// tieRank returns the key by which Order ranks an idle block.
func (s *Settings) tieRank(b *Block) uint64 {
	switch s.Order {
	case ByBlock:
		return b.number
	case ByAddress:
		return b.base + uint64(b.Offset)
	}
	return uint64(b.Segment) + 1
}

// allowsBlock reports whether, under MaxSplit, a request of size may use an idle block of size block.
func (s *Settings) allowsBlock(block, size int64) bool {
	switch {
	case s.MaxSplit == 0:
		return true
	case size < s.MaxSplit:
		return block < s.MaxSplit
	}
	return block < size+cmp.Or(s.MaxRounding, oversize)
}

// worthSplitting reports whether PyTorch would split off the part of a block beyond size.
func (s *Settings) worthSplitting(b *Block, size int64) bool {
	rest := b.Size - size
	if b.of.small || s.Pages != nil {
		return rest >= grain
	}
	return rest > smallMost && (s.MaxSplit == 0 || size < s.MaxSplit)
}
