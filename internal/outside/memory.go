package outside

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/gpuprof/gpuprof"
)

// MemoryVariable is the environment variable that says how much memory reading
// one file, or the traces of one job, may take: "800MB", "2GiB".
const MemoryVariable = "GPUPROF_MEMORY"

// What reading may take where the variable does not say, bytes.
const (
	documentMemory = 512 << 20
	traceMemory    = 2 << 30
)

// The parts of it, of 512: the text, which is there twice while it grows, and what it
// is decoded into, which is there when the text is there once. The rest is the
// program's own, and garbage. A second of the shortest steps takes two megabytes.
const (
	whole       = 512
	textPart    = 80
	decodedPart = 144
)

// leastMemory is the least that can be asked for, bytes.
const leastMemory = 1 << 20

// CheckMemorySetting says what is wrong with MemoryVariable; ErrUsage.
func CheckMemorySetting() error {
	text := os.Getenv(MemoryVariable)
	if text == "" {
		return nil
	}
	if n, err := gpuprof.ParseBytes(text); err != nil || n < leastMemory {
		return gpuprof.Errorf(gpuprof.ErrUsage, "reading the environment variable %s=%s: it is no size of at least 1 MiB", MemoryVariable, text).WithFix("give for example %s=2GiB, or leave it out", MemoryVariable)
	}
	return nil
}

// DocumentMemory is the most memory that reading one document may take, bytes.
func DocumentMemory() int64 { return memorySetting(documentMemory) }

// TraceMemory is the most memory that reading and analysing the traces of one job
// may take, bytes.
func TraceMemory() int64 { return memorySetting(traceMemory) }

// DocumentText is the most text that is read of one document, bytes, decompressed.
func DocumentText() int64 { return DocumentMemory() / whole * textPart }

// DecodedMemory is the most that one document may be decoded into, bytes.
func DecodedMemory() int64 { return DocumentMemory() / whole * decodedPart }

func memorySetting(otherwise int64) int64 {
	if n, err := gpuprof.ParseBytes(os.Getenv(MemoryVariable)); err == nil && n >= leastMemory {
		return n
	}
	return otherwise
}

// TooLarge says that a file holds more than may be read of it.
type TooLarge struct {
	What string // "it unfolds to more than 64 MiB"
	// Memory is what reading may take, bytes.
	Memory int64
	folder bool // it is a folder's listing
}

// Error says what is too much, what may be read and how to read more.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("%s, which is the most that is read with %s of memory; %s", e.What, MemoryText(e.Memory), e.Fix())
}

// Fix says how to read more.
func (e *TooLarge) Fix() string {
	what := "file"
	if e.folder {
		what = "folder"
	}
	return fmt.Sprintf("give a smaller %s, or set %s=%s to read more", what, MemoryVariable, MemoryText(4*e.Memory))
}

// MemoryText writes a size as MemoryVariable takes it: "512MiB".
func MemoryText(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.size {
			return strconv.FormatFloat(math.Round(10*float64(n)/float64(u.size))/10, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// Room is the memory that is left for what one file is decoded into.
type Room struct{ left int64 }

// NewRoom is the room of one file, DecodedMemory.
func NewRoom() *Room { return &Room{DecodedMemory()} }

// NoLimit is the room of a text that this program has just written.
func NoLimit() *Room { return &Room{math.MaxInt64} }

// Take uses some of it, bytes; a TooLarge when there is not so much.
func (r *Room) Take(bytes int64) error {
	if r.left -= bytes; r.left < 0 {
		return &TooLarge{What: "its values take more than " + MemoryText(DecodedMemory()), Memory: DocumentMemory()}
	}
	return nil
}
