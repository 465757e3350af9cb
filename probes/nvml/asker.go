package nvml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// asker reads a GPU's numbers. It keeps which queries were not answered and why, and which
// answers tell of a fault of the GPU.
type asker struct {
	g          gpu
	forbidden  []string
	unanswered map[string]string // by query
	answered   bool              // NVML answered a query about the GPU's present state
	lost       error             // any answer that the GPU is lost or requires a reset
	broken     error             // the first answer by which a GPU is at fault that gives no better one
}

// heed takes note of the answer to one query about the GPU's state.
func (a *asker) heed(what string, err error) {
	if err == nil {
		a.answered = true
		return
	}
	if errors.Is(err, errForbidden) {
		a.forbidden = append(a.forbidden, what)
	}
	a.unanswered[what] = err.Error()
	a.blame(err)
}

func (a *asker) blame(err error) {
	var f failure
	switch {
	case (errors.Is(err, errLost) || errors.Is(err, errReset)) && a.lost == nil:
		a.lost = err
	case errors.As(err, &f) && f.broken() && a.broken == nil:
		a.broken = err
	}
}

// fault is the fault that the answers show, "" none. One answer that the GPU is lost is
// enough; an unknown error or a timeout counts if no query about the state was answered.
func (a *asker) fault() string {
	switch {
	case a.lost != nil:
		return a.lost.Error()
	case a.broken != nil && !a.answered:
		return a.broken.Error()
	}
	return ""
}

// identity is a name or address of the GPU, "" where it is unknown. NVML answers from memory
// here, so that an answer does not show that the GPU works.
func (a *asker) identity(get func() (string, error)) string {
	s, err := get()
	if a.blame(err); err != nil || strings.Contains(s, "?") { // the driver writes GPU-????????-… for an unknown UUID
		return ""
	}
	return s
}

func (a *asker) number(q quantity, what string) gpuprof.Number {
	v, err := a.g.number(q)
	if a.heed(what, err); err != nil {
		return unknown
	}
	return gpuprof.Number(v)
}

func (a *asker) field(id uint32, what string) gpuprof.Number {
	f := []field{{id: id}}
	a.g.fields(f)
	if !f[0].ok && f[0].err == nil {
		f[0].err = errUnsupported
	}
	if a.heed(what, f[0].err); f[0].err != nil {
		return unknown
	}
	return gpuprof.Number(f[0].value)
}

func (a *asker) state(q quantity, what string) Switch {
	switch v := a.number(q, what); {
	case !Known(v):
		return ""
	case v == 0:
		return Off
	}
	return On
}

// RepairHealth tells whether memory of the GPU waits to be taken out of use or could not be:
// a fault and its fix, or a note on what is none. All are empty where there is nothing to tell.
func (d DeviceInfo) RepairHealth() (fault, fix, note string) {
	switch {
	case d.RemapFailed == On:
		return "a faulty memory row could not be replaced",
			"replace the GPU: take it out of service, since a reset does not repair this memory", ""
	case d.RemapPending == On || d.RetirePending == On:
		return "faulty memory waits for a reset to be taken out of use", d.resetFix(), ""
	case d.repairedRows() > 0:
		return "", "", fmt.Sprintf("%g memory rows were replaced after uncorrectable errors, and none waits", d.repairedRows())
	}
	return "", "", ""
}

// ECCHealth is the fault that the count of uncorrected errors shows, and its fix. Errors of no
// more than the rows that were replaced, where none waits, are of repaired memory.
func (d DeviceInfo) ECCHealth() (fault, fix string) {
	if n := float64(d.Uncorrected); n > d.repairedRows() {
		return fmt.Sprintf("%g uncorrected errors since the driver was loaded", n), d.resetFix() + "; if the fault returns, replace the GPU"
	}
	return "", ""
}

// repairedRows are the memory rows that were replaced, 0 where that is unknown or one waits.
func (d DeviceInfo) repairedRows() float64 {
	if !Known(d.RemappedRows) || d.RemapPending != Off || d.RemapFailed != Off {
		return 0
	}
	return float64(d.RemappedRows)
}

func (d DeviceInfo) resetFix() string {
	return fmt.Sprintf("stop the programs on it and reset the GPU (nvidia-smi -i %d -r), or reboot", d.Index)
}
