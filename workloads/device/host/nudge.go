package host

import "sync"

// nudge makes a goroutine that was just woken run at once, concurrently with the goroutine that woke it.
//
// The Go scheduler puts a woken goroutine next in the waker's run queue, from which an idle processor takes it only
// after a short sleep, about 60 us on Linux. So a stream would start 100 us after a launch that finds it parked (25 us
// with nudge), and a kernel would run on one thread for as long. Waking a second goroutine moves the first to the
// ordinary run queue, which idle processors check at once. The goroutines of nudge do nothing else.
type nudge struct {
	line  chan struct{}
	ended sync.WaitGroup
}

// nudgers is the number of goroutines of a nudge. A push has an effect only while one of them waits, so it is also the
// number of pushes in a row that have one.
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
