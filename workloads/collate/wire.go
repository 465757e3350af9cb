package collate

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"

	"github.com/gpuprof/gpuprof"
)

// Messages in the pipes of a worker process. Each message is a separate gob that repeats its type descriptions, like
// each pickle of a Python loader, and is preceded by its length.

// hello is a worker's first message. It proves that the started program is a worker.
type hello struct{ Protocol string }

const protocol = "gpuprof-collate-1"

type contract struct {
	Recipe recipe
	Slots  int
	Caps   sizes
}

type task struct{ Index, Slot int }

// reply describes a finished batch. For each array it has the fields that a loader pickles of a tensor (name, type,
// shape, offset in shared memory). It also has the time for making the batch.
type reply struct {
	Index  int
	Bytes  int // new size of the slot's shared memory, if it had to grow
	Arrays []array
	Cost   batchCost
	Error  string
}

type array struct {
	Name, Type string
	Shape      [2]int
	Offset     int // words
}

// maxMessage is above the size of any message, even with a hundred thousand file names.
const maxMessage = 1 << 28

func writeMessage(w io.Writer, v any) error {
	var b bytes.Buffer
	b.Write(make([]byte, 4))
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	msg := b.Bytes()
	if len(msg) > maxMessage {
		return gpuprof.Errorf(nil, "encoding a message: %d bytes are more than the %d allowed", len(msg), maxMessage).WithFix("use a folder of fewer files")
	}
	binary.LittleEndian.PutUint32(msg, uint32(len(msg)-4))
	_, err := w.Write(msg)
	return err
}

func readMessage(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > maxMessage {
		return errors.New("the message's length is damaged")
	}
	msg := make([]byte, n)
	if _, err := io.ReadFull(r, msg); err != nil {
		return err
	}
	if err := gob.NewDecoder(bytes.NewReader(msg)).Decode(v); err != nil {
		return fmt.Errorf("decoding a message: %w", err)
	}
	return nil
}

func describeArrays(b *batch) []array {
	out := make([]array, fieldCount)
	for f, d := range fields {
		kind := "float32"
		if d.pad != 0 || f == fCounts {
			kind = "int32"
		}
		out[f] = array{Name: d.name, Type: kind, Shape: [2]int{b.rows[d.unit], d.width}, Offset: b.at[f]}
	}
	return out
}

// adoptArrays makes b the batch of a reply; mem is the slot's shared memory.
func adoptArrays(b *batch, arrays []array, mem []byte) error {
	if len(arrays) != int(fieldCount) {
		return fmt.Errorf("the worker's batch has %d arrays, not %d", len(arrays), fieldCount)
	}
	b.mem = mem
	for f, a := range arrays {
		d := fields[f]
		end := a.Offset + a.Shape[0]*d.width
		if a.Name != d.name || a.Shape[1] != d.width || a.Offset < 0 || a.Shape[0] < 0 || 4*end > len(mem) {
			return fmt.Errorf("the worker's array %s %v at word %d does not fit a slot of %d bytes", a.Name, a.Shape, a.Offset, len(mem))
		}
		b.at[f], b.rows[d.unit] = a.Offset, a.Shape[0]
	}
	return nil
}
