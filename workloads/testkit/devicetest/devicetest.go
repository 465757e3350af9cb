// Package devicetest is the conformance suite of every device: the behaviour that the rest of gpuprof relies on
// beyond the method signatures of device.Device.
//
// The suite proves concurrency by handshakes through pinned memory (see "gate" in [Catalogue]), never by sleeping. On
// a device that runs work inside the call that enqueues it, the suite stops with a message, or hangs until the test's
// own time limit.
package devicetest

import (
	"testing"

	"github.com/gpuprof/gpuprof/workloads/device"
)

// Kernels adapts the suite's kernels to a device.
type Kernels struct {
	// Prepare adds the fields that the device needs in addition to the Go twin (PTX, Entry, Threads, PerBlock), by
	// the kernel's name. Nil for the host device.
	Prepare func(*device.Kernel)
}

// Run checks the devices that open returns. Every check opens its own device and closes it. A device that a check
// makes fail is not used again.
func Run(t *testing.T, open func(t *testing.T) device.Device, k Kernels) {
	for _, c := range []struct {
		name  string
		check func(*lab)
	}{
		{"info", checkInfo},
		{"load", checkLoad},
		{"ceilings", checkCeilings},

		{"order in a stream", checkOrder},
		{"caller goes on", checkOverlap},
		{"two streams progress", checkTwoStreams},
		{"wait across streams", checkWaitAcross},
		{"wait takes the latest record", checkWaitLatest},
		{"beyond the queue", checkBeyondQueue},
		{"arguments copied", checkArgsCopied},
		{"arguments round trip", checkArgsRoundTrip},
		{"no arguments", checkNoArgs},
		{"stream closed", checkStreamClosed},
		{"close in flight", checkCloseInFlight},

		{"event order and times", checkEventTimes},
		{"event recorded again", checkEventAgain},
		{"event misuse", checkEventMisuse},
		{"blocked time", checkBlockedTime},

		{"memory account", checkMemoryAccount},
		{"out of memory", checkOutOfMemory},
		{"use after free", checkUseAfterFree},
		{"free in flight", checkFreeInFlight},

		{"copy contents and counts", checkCopies},
		{"copy bounds", checkCopyBounds},
		{"zero and odd sizes", checkOddSizes},

		{"capture equals direct", checkCapture},
		{"capture misuse", checkCaptureMisuse},
		{"kernel failure", checkKernelFailure},
		{"foreign objects", func(l *lab) { checkForeign(l, open(l.t)) }},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(newLab(t, open(t), k)) })
	}
}
