package op

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gpuprof/gpuprof"
	"github.com/gpuprof/gpuprof/workloads/device"
)

// Arena allocates the buffers of one owner, such as a session, and frees them together. After the first error, kept in
// Err, requests return nil, so one check of Err after many requests is enough.
type Arena struct {
	Dev device.Device
	Err error

	bufs    []device.Buffer
	staging device.Buffer // of Receive, nil before its first use
}

// Bytes allocates n bytes, at least four, because an empty array also needs an address. what names the buffer in an
// error.
func (a *Arena) Bytes(what string, n int, p device.Place) device.Buffer {
	if a.Err != nil {
		return nil
	}
	b, err := a.Dev.Alloc(max(n, floatBytes), p)
	if err != nil {
		a.Err = fmt.Errorf("allocating %s: %w", what, err)
		return nil
	}
	a.bufs = append(a.bufs, b)
	return b
}

// Words allocates n elements of four bytes.
func (a *Arena) Words(what string, n int64, p device.Place) device.Buffer {
	if n > math.MaxInt/floatBytes && a.Err == nil {
		a.Err = gpuprof.Errorf(gpuprof.ErrMemory, "allocating %s: %d elements are beyond the address space", what, n).WithFix("use a smaller batch")
	}
	return a.Bytes(what, int(n)*floatBytes, p)
}

// Upload allocates device memory and enqueues a copy of v to it on stream s.
func (a *Arena) Upload(s device.Stream, what string, v []float32) device.Buffer {
	dst := a.Words(what, int64(len(v)), device.OnDevice)
	if a.Err != nil {
		return dst
	}
	if err := Send(a.Dev, s, dst, v); err != nil {
		a.Err = fmt.Errorf("uploading %s: %w", what, err)
	}
	return dst
}

// Drop frees buffer b at once, ahead of Free. A nil b is ignored.
func (a *Arena) Drop(b device.Buffer) error {
	if b == nil {
		return nil
	}
	i := slices.Index(a.bufs, b)
	a.bufs[i] = a.bufs[len(a.bufs)-1]
	a.bufs = a.bufs[:len(a.bufs)-1]
	return b.Free()
}

// Free frees all buffers and returns the first error.
func (a *Arena) Free() error {
	var first error
	for _, b := range a.bufs {
		if err := b.Free(); err != nil && first == nil {
			first = err
		}
	}
	a.bufs, a.staging = nil, nil
	return first
}

// stagingBytes is the size of the buffer through which Arena.Receive reads; larger reads allocate their own.
const stagingBytes = 1 << 16

// Receive copies n floats of src from index at to the host, like the function Receive. It reads through a buffer of
// the arena, so that a check that reads row by row allocates none per row.
func (a *Arena) Receive(s device.Stream, src device.Buffer, at, n int) ([]float32, error) {
	if n == 0 || n*floatBytes > stagingBytes {
		return Receive(a.Dev, s, src, at, n)
	}
	if a.staging == nil {
		if a.staging = a.Bytes("a buffer for reading", stagingBytes, device.Pageable); a.Err != nil {
			return nil, a.Err
		}
	}
	return receiveThrough(a.staging, s, src, at, n)
}

// Send copies v to dst through a temporary pageable buffer and waits, because it frees that buffer.
func Send(dev device.Device, s device.Stream, dst device.Buffer, v []float32) error {
	return SendAt(dev, s, dst, 0, v)
}

// SendAt is like Send, but writes to the elements of dst from index at on.
func SendAt(dev device.Device, s device.Stream, dst device.Buffer, at int, v []float32) error {
	if len(v) == 0 {
		return nil
	}
	src, err := dev.Alloc(len(v)*floatBytes, device.Pageable)
	if err != nil {
		return err
	}
	copy(device.Floats(src), v)
	err = s.Copy(dst, at*floatBytes, src, 0, len(v)*floatBytes)
	if err == nil {
		err = s.Sync()
	}
	if e := src.Free(); err == nil {
		err = e
	}
	return err
}

// Receive copies elements [at, at+n) of src to the host and waits for the copy.
func Receive(dev device.Device, s device.Stream, src device.Buffer, at, n int) ([]float32, error) {
	if n == 0 {
		return []float32{}, nil
	}
	dst, err := dev.Alloc(n*floatBytes, device.Pageable)
	if err != nil {
		return nil, err
	}
	out, err := receiveThrough(dst, s, src, at, n)
	return out, cmp.Or(err, dst.Free())
}

// ReceiveBytes copies bytes [at, at+n) of src to the host and waits for the copy.
func ReceiveBytes(dev device.Device, s device.Stream, src device.Buffer, at, n int) ([]byte, error) {
	if n == 0 {
		return []byte{}, nil
	}
	dst, err := dev.Alloc(n, device.Pageable)
	if err != nil {
		return nil, err
	}
	if err = s.Copy(dst, 0, src, at, n); err == nil {
		err = s.Sync()
	}
	return slices.Clone(dst.Bytes()), cmp.Or(err, dst.Free())
}

// receiveThrough copies elements [at, at+n) of src to the host through a host buffer, and waits for the copy.
func receiveThrough(buffer device.Buffer, s device.Stream, src device.Buffer, at, n int) ([]float32, error) {
	if err := s.Copy(buffer, 0, src, at*floatBytes, n*floatBytes); err != nil {
		return nil, err
	}
	if err := s.Sync(); err != nil {
		return nil, err
	}
	return slices.Clone(device.Floats(buffer)[:n]), nil
}
