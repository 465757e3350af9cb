// Package host is the device for machines without a GPU: it runs kernels written in Go on the processor, on streams
// that run concurrently with the caller.
//
// A [Stream] is a goroutine that takes work in order from a ring of 1024 fixed-size items. Enqueueing allocates
// nothing and returns at once. When the ring is full the caller waits until an eighth of it is done, as with a GPU
// driver. A shared counter hands out a kernel's range to the device's threads (see [device.Kernel]) and the stream's
// own goroutine; kernels of several streams run concurrently.
//
// Failure follows CUDA. A kernel that panics fails its stream for good: later work is dropped, later events complete
// with the error, and Sync returns it. A stream that waits for one of these events fails too. Enqueueing on a failed
// stream succeeds and drops the work, so that the call that returns the error does not depend on timing. Other streams
// continue.
//
// One goroutine uses a device, its streams, events and buffers; others may only access the bytes of host buffers.
// Kernels must not call the device that runs them.
package host
