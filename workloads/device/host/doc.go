// Package host is the device for machines without a GPU: it runs kernels written in Go on the processor, with streams
// that run concurrently with the caller.
//
// A [Stream] is a goroutine that takes work in order from a ring of 1024 fixed-size items. Enqueueing allocates
// nothing and returns at once; when the ring is full the caller waits until an eighth of it is done, as a GPU driver
// makes it wait. A shared counter splits a kernel's range over the device's threads (see [device.Kernel]); the
// stream's own goroutine takes part, and kernels of several streams run concurrently.
//
// Failure follows CUDA. A kernel that panics fails its stream for good: the work behind it is dropped, events behind
// it complete with the error, Sync returns it, and a stream that waits for such an event fails too. Enqueueing on a
// failed stream is accepted and dropped, so that the place of the error does not depend on timing. Other streams
// continue.
//
// One goroutine uses a device, its streams, events and buffers; others may only read and write the bytes of host
// buffers. Kernels must not call the device that runs them.
package host
