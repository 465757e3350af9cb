package cli

import (
	"os"
	"testing"
	"time"
)

// timeout(1) sends its signal twice, to the program and to its group: that asks for an
// orderly end, which keeps what was measured, and not for an end at once.
func TestSignalsOfOneMoment(t *testing.T) {
	signals, over, done := make(chan os.Signal), make(chan time.Time), make(chan struct{})
	ended, released := make(chan bool, 1), make(chan bool, 1)
	go EndAtFirst(signals, done, func() { ended <- true }, func() <-chan time.Time { return over }, func() { released <- true })
	signals <- os.Interrupt
	<-ended
	for range 3 { // taken, and so lost to the system's own way of ending a program
		signals <- os.Interrupt
	}
	if len(released) > 0 {
		t.Error("the next signal would end the program within the moment of the first")
	}
	over <- time.Time{}
	<-released

	// Where no signal comes it ends with what it was for, before the first and after it.
	for _, first := range []bool{false, true} {
		returned, done := make(chan bool), make(chan struct{})
		go func() {
			EndAtFirst(signals, done, func() {}, func() <-chan time.Time { return nil }, func() { t.Error("released") })
			close(returned)
		}()
		if first {
			signals <- os.Interrupt
		}
		close(done)
		<-returned
	}
}
