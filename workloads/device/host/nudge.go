package host

import "sync"

// nudge makes a goroutine that was just woken run at once, concurrently with the goroutine that woke it.
//
// The Go scheduler puts a woken goroutine next in the waker's own run queue, from which an idle processor takes it
// only after a short sleep, which Linux makes about 60 us. Without help a stream starts 100 us after a launch that
// finds it parked (25 us with), and a kernel runs on one thread for as long. Waking a second goroutine moves the
// first to the ordinary run queue, where idle processors look immediately. The goroutines here do nothing else.
type nudge struct {
	line  chan struct{}
	ended sync.WaitGroup
}

// nudgers is the number of goroutines that nudge wakes, and so the number of pushes in a row that take effect before
// one of the goroutines ran.
const nudgers = 4

func newNudge() *nudge {
	n := &nudge{line: make(chan struct{})}
	for range nudgers {
		n.ended.Go(func() {
			for range n.line { // waking up is the purpose
			}
		})
	}
	return n
}

// push is called right after waking another goroutine. It does not block.
func (n *nudge) push() {
	select {
	case n.line <- struct{}{}:
	default:
	}
}

func (n *nudge) close() {
	close(n.line)
	n.ended.Wait()
}
