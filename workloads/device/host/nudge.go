package host

import "sync"

// nudge makes a goroutine that was just woken run beside its waker at once.
//
// The Go scheduler puts a woken goroutine next in line on the waker's own
// processor, and lets an idle processor take that place only after a short
// sleep, which Linux makes about 60 us: without help a stream starts 100 us
// after a launch that finds it parked (25 us with), and a kernel runs on one
// thread for as long. Waking a second goroutine moves
// the first to the ordinary line, where idle processors look immediately. The
// goroutines here do nothing else.
type nudge struct {
	line  chan struct{}
	ended sync.WaitGroup
}

// nudgers is how many wakings in a row can be helped while none of the
// goroutines here has had its turn.
const nudgers = 4

func newNudge() *nudge {
	n := &nudge{line: make(chan struct{})}
	for range nudgers {
		n.ended.Go(func() {
			for range n.line { // being woken is the point
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
