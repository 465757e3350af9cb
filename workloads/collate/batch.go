package collate

import (
	"unsafe"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Fields of a batch. Values have four bytes.
const (
	fCounts  = iota // [samples,4] int32: atoms, atom edges, probes and probe edges of each sample
	fSpecies        // [atoms] int32
	fPos            // [atoms,3] float32
	fESrc           // [atom edges] int32: row of the source atom
	fEDst           // [atom edges] int32: row of the destination atom
	fEVec           // [atom edges,3] float32
	fProbe          // [probes,3] float32
	fPSrc           // [probe edges] int32: row of the source atom
	fPDst           // [probe edges] int32: row of the probe
	fPVec           // [probe edges,3] float32
	fieldCount
)

type field struct {
	name  string
	unit  int
	width int
	base  int // for a field of row numbers: the unit of those rows; else -1
	pad   int32
}

// fields describes the fields of a batch. Padding is -1 for indices and species, 0 for coordinates.
var fields = [fieldCount]field{
	fCounts:  {"counts", uSample, 4, -1, 0},
	fSpecies: {"species", uAtom, 1, -1, -1},
	fPos:     {"pos", uAtom, 3, -1, 0},
	fESrc:    {"edge_src", uEdge, 1, uAtom, -1},
	fEDst:    {"edge_dst", uEdge, 1, uAtom, -1},
	fEVec:    {"edge_vec", uEdge, 3, -1, 0},
	fProbe:   {"probe", uProbe, 3, -1, 0},
	fPSrc:    {"probe_src", uReach, 1, uAtom, -1},
	fPDst:    {"probe_dst", uReach, 1, uProbe, -1},
	fPVec:    {"probe_vec", uReach, 3, -1, 0},
}

// frame is the layout of a block of memory for batches up to caps: offsets and total size in words of four bytes.
// Each field begins on a cache line of its own.
type frame struct {
	caps  sizes
	at    [fieldCount]int
	words int
}

func frameOf(caps sizes) frame {
	f := frame{caps: caps}
	for i, d := range fields {
		f.at[i] = f.words
		f.words += (caps[d.unit]*d.width + 15) &^ 15
	}
	return f
}

func (f *frame) fits(rows sizes) bool {
	for u, n := range rows {
		if n > f.caps[u] {
			return false
		}
	}
	return true
}

// grownTo returns a frame for these rows with a quarter of spare capacity.
func (f *frame) grownTo(rows sizes) frame {
	caps := f.caps
	for u, n := range rows {
		if n > caps[u] {
			caps[u] = n + n/4
		}
	}
	return frameOf(caps)
}

// batch is one finished batch and its memory.
type batch struct {
	index int
	rows  sizes
	at    [fieldCount]int // offset of each field in mem, in words
	mem   []byte
	cost  batchCost
	err   error
}

// batchCost holds the times for making a batch, in nanoseconds.
type batchCost struct{ Sample, Collate, Serialise int64 }

// wordsOf returns the length of field f in words.
func (b *batch) wordsOf(f int) int { return b.rows[fields[f].unit] * fields[f].width }

func (b *batch) bytesOf(f int) []byte { return b.mem[4*b.at[f] : 4*(b.at[f]+b.wordsOf(f))] }

func (b *batch) intField(f int) []int32     { return intsOf(b.bytesOf(f)) }
func (b *batch) floatField(f int) []float32 { return floatsOf(b.bytesOf(f)) }

func (b *batch) byteSize() int {
	n := 0
	for f := range fields {
		n += 4 * b.wordsOf(f)
	}
	return n
}

func intsOf(b []byte) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

type slot struct {
	batch
	frame frame
	home  []byte        // memory in the layout frame
	buf   device.Buffer // buffer of home if the device can copy from it; else nil
	spill bool          // the batch was too large for home and is on the heap
}

// prepare lays out the slot, the memory of one batch, for a batch of these rows. Workers must not allocate device
// memory, so a batch that is too large goes to the heap; the caller finds spill set and enlarges the slot.
func (sl *slot) prepare(rows sizes) {
	f := &sl.frame
	sl.mem, sl.spill = sl.home, false
	if !f.fits(rows) {
		bigger := f.grownTo(rows)
		sl.mem, sl.spill = make([]byte, 4*bigger.words), true
		if sl.buf == nil { // the slot owns its memory, so the larger memory stays
			sl.home, sl.frame, sl.spill = sl.mem, bigger, false
		}
		f = &bigger
	}
	sl.rows, sl.at = rows, f.at
}

// layoutOf returns the rows of a batch of samples, and the stride between samples in a padded batch.
func layoutOf(samples []sample, padded bool) (rows, stride sizes) {
	rows[uSample] = len(samples)
	for i := range samples {
		n := samples[i].unitSizes()
		for u := uAtom; u < unitCount; u++ {
			rows[u] += n[u]
			stride[u] = max(stride[u], n[u])
		}
	}
	if padded {
		for u := uAtom; u < unitCount; u++ {
			rows[u] = stride[u] * len(samples)
		}
	}
	return rows, stride
}
