package cupti

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Types of chunks.
const (
	tSchema = 1 + iota
	tProcess
	tNames
	tClock
	tKernel
	tCopy
	tFill
	tCall
	tNVTX
	tDevice
	tThread
	tLost
	tOverhead
	tEnd
	tGraph
	tCut // describes the part of a recording that the file holds; the first chunk
	types
)

const (
	chunkMark  = 0x68435047 // "GPch"
	chunkHead  = 24
	mostBytes  = 16 << 20 // of a payload; the recorder writes at most 1 MiB
	readBuffer = 256 << 10
)

// chunk is one chunk of a file. Its payload is valid until the next chunk is read.
type chunk struct {
	kind    uint16
	record  int // bytes of a record, 0 for texts
	count   int
	at      int64 // time of writing, ns of the machine's clock
	payload []byte
}

// chunks reads the chunks of a file one after the other.
type chunks struct {
	in   *bufio.Reader
	at   int64 // position of the next chunk
	room []byte
}

var le = binary.LittleEndian

func newChunks(in io.Reader) (*chunks, error) {
	c := &chunks{in: bufio.NewReaderSize(in, readBuffer), at: int64(headBytes)}
	head := make([]byte, headBytes)
	if n, err := io.ReadFull(c.in, head); err != nil {
		return nil, fmt.Errorf("the file ends after %d bytes", n)
	}
	switch v, order := le.Uint32(head[8:]), le.Uint32(head[12:]); {
	case !Sniff(head):
		return nil, errors.New("this is no recording of gpuprof")
	case order != byteOrder:
		return nil, errors.New("it was written on a machine of another byte order")
	case v != version:
		return nil, fmt.Errorf("its version is %d and this gpuprof reads version %d", v, version)
	}
	return c, nil
}

// parseChunkHead parses the head of a chunk.
func parseChunkHead(head []byte) chunk {
	return chunk{kind: le.Uint16(head[4:]), record: int(le.Uint16(head[6:])), count: int(le.Uint32(head[8:])), at: clampInt64(le.Uint64(head[16:]))}
}

// next reads the next chunk. It returns io.EOF at the end of a complete file. Other errors describe the damage.
func (c *chunks) next() (chunk, error) {
	var head [chunkHead]byte
	n, err := io.ReadFull(c.in, head[:])
	switch {
	case errors.Is(err, io.EOF):
		return chunk{}, io.EOF
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return chunk{}, err
	case err != nil:
		return chunk{}, fmt.Errorf("the file ends %d bytes into a chunk", n)
	}
	k := parseChunkHead(head[:])
	size := int(le.Uint32(head[12:]))
	if le.Uint32(head[:]) != chunkMark || size > mostBytes {
		return chunk{}, errors.New("what follows is no chunk")
	}
	if len(c.room) < size {
		c.room = make([]byte, size)
	}
	k.payload = c.room[:size]
	if n, err := io.ReadFull(c.in, k.payload); err != nil {
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return chunk{}, err
		}
		return chunk{}, fmt.Errorf("the file ends %d bytes into a chunk of %d", n+chunkHead, size+chunkHead)
	}
	c.at += int64(chunkHead + size)
	return k, nil
}

// splitRecords returns the complete records of a chunk, or none if a record has fewer than least bytes.
func (k *chunk) splitRecords(least int) (out [][]byte) {
	if k.record < least || k.record == 0 {
		return nil
	}
	for p := k.payload; len(p) >= k.record && len(out) < k.count; p = p[k.record:] {
		out = append(out, p[:k.record])
	}
	return out
}
