package outside

import (
	"fmt"
	"math"
	"os"
	"strconv"

	"github.com/gpuprof/gpuprof"
)

// MemoryVariable is the environment variable with the memory limit for reading one file, or the traces of one job:
// "800MB", "2GiB".
const MemoryVariable = "GPUPROF_MEMORY"

// Default memory limits of reading, bytes.
const (
	documentMemory = 512 << 20
	traceMemory    = 2 << 30
)

// Parts of the memory limit, in 512ths: textPart for the text, of which two copies exist while it grows, and
// decodedPart for the decoded data, which exist together with the text. The remainder is for the program and garbage.
const (
	whole       = 512
	textPart    = 80
	decodedPart = 144
)

// leastMemory is the least valid MemoryVariable, bytes.
const leastMemory = 1 << 20

// CheckMemorySetting returns ErrUsage for an invalid MemoryVariable.
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

// DocumentMemory returns the memory limit for reading one document, bytes.
func DocumentMemory() int64 { return memorySetting(documentMemory) }

// TraceMemory returns the memory limit for reading and analysing the traces of one job, bytes.
func TraceMemory() int64 { return memorySetting(traceMemory) }

// DocumentText returns the limit of the decompressed text of one document, bytes.
func DocumentText() int64 { return DocumentMemory() / whole * textPart }

// DecodedMemory returns the memory limit for the decoded data of one document, bytes.
func DecodedMemory() int64 { return DocumentMemory() / whole * decodedPart }

func memorySetting(otherwise int64) int64 {
	if n, err := gpuprof.ParseBytes(os.Getenv(MemoryVariable)); err == nil && n >= leastMemory {
		return n
	}
	return otherwise
}

// TooLarge is the error about a file that exceeds a limit.
type TooLarge struct {
	What string // "it unfolds to more than 64 MiB"
	// Memory is the memory limit, bytes.
	Memory int64
	folder bool // the error concerns a listing
}

// Error describes the excess, the limit and the fix.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("%s, which is the most that is read with %s of memory; %s", e.What, MemoryText(e.Memory), e.Fix())
}

// Fix returns the fix: a smaller file, or a larger limit.
func (e *TooLarge) Fix() string {
	what := "file"
	if e.folder {
		what = "folder"
	}
	return fmt.Sprintf("give a smaller %s, or set %s=%s to read more", what, MemoryVariable, MemoryText(4*e.Memory))
}

// MemoryText formats a size as in MemoryVariable: "512MiB".
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

// Room is the memory budget for the decoded data of one file.
type Room struct{ left int64 }

// NewRoom returns the budget of one file, DecodedMemory.
func NewRoom() *Room { return &Room{DecodedMemory()} }

// NoLimit returns an unlimited budget, for a text that this program has just written.
func NoLimit() *Room { return &Room{math.MaxInt64} }

// Take consumes bytes of the budget; it returns a TooLarge if the budget is exceeded.
func (r *Room) Take(bytes int64) error {
	if r.left -= bytes; r.left < 0 {
		return &TooLarge{What: "its values take more than " + MemoryText(DecodedMemory()), Memory: DocumentMemory()}
	}
	return nil
}
