package nvml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof"
)

// asker queries one GPU. It collects failed queries with their reasons, and answers that indicate a fault.
type asker struct {
	g          gpu
	forbidden  []string
	unanswered map[string]string // by query
	answered   bool              // NVML answered a query about the GPU's current state
	lost       error             // an answer that the GPU is lost or requires a reset
	broken     error             // the first answer that indicates a fault unless another query succeeds
}

func (a *asker) recordAnswer(what string, err error) {
	if err == nil {
		a.answered = true
		return
	}
	if errors.Is(err, errForbidden) {
		a.forbidden = append(a.forbidden, what)
	}
	a.unanswered[what] = err.Error()
	a.recordFault(err)
}

func (a *asker) recordFault(err error) {
	var f failure
	switch {
	case (errors.Is(err, errLost) || errors.Is(err, errReset)) && a.lost == nil:
		a.lost = err
	case errors.As(err, &f) && f.showsFault() && a.broken == nil:
		a.broken = err
	}
}

// faultText returns the fault that the answers indicate, "" without one. One answer that the GPU is lost is enough; an
// unknown error or a timeout counts only if no query about the state succeeded.
func (a *asker) faultText() string {
	switch {
	case a.lost != nil:
		return a.lost.Error()
	case a.broken != nil && !a.answered:
		return a.broken.Error()
	}
	return ""
}

// askIdentity returns a name or address, "" if unknown. NVML answers from memory, so an answer does not show that the
// GPU works.
func (a *asker) askIdentity(get func() (string, error)) string {
	s, err := get()
	if a.recordFault(err); err != nil || strings.Contains(s, "?") { // the driver returns GPU-????????-… for an unknown UUID
		return ""
	}
	return s
}

func (a *asker) askNumber(q quantity, what string) gpuprof.Number {
	v, err := a.g.readNumber(q)
	if a.recordAnswer(what, err); err != nil {
		return unknown
	}
	return gpuprof.Number(v)
}

func (a *asker) askField(id uint32, what string) gpuprof.Number {
	f := []field{{id: id}}
	a.g.readFields(f)
	if !f[0].ok && f[0].err == nil {
		f[0].err = errUnsupported
	}
	if a.recordAnswer(what, f[0].err); f[0].err != nil {
		return unknown
	}
	return gpuprof.Number(f[0].value)
}

func (a *asker) askSwitch(q quantity, what string) Switch {
	switch v := a.askNumber(q, what); {
	case !Known(v):
		return ""
	case v == 0:
		return Off
	}
	return On
}

// RepairHealth returns a fault with its fix if GPU memory waits for a repair or could not be repaired, or a note about
// repaired memory; all "" without repairs.
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

// ECCHealth returns the fault of uncorrected errors, with the fix. Errors up to the number of repaired rows are no
// fault: they were in memory that is replaced.
func (d DeviceInfo) ECCHealth() (fault, fix string) {
	if n := float64(d.Uncorrected); n > d.repairedRows() {
		return fmt.Sprintf("%g uncorrected errors since the driver was loaded", n), d.resetFix() + "; if the fault returns, replace the GPU"
	}
	return "", ""
}

// repairedRows returns the number of memory rows that spare rows replaced. It is 0 unless NVML reports the number, and
// also reports that no row waits for a replacement and no replacement failed.
func (d DeviceInfo) repairedRows() float64 {
	if !Known(d.RemappedRows) || d.RemapPending != Off || d.RemapFailed != Off {
		return 0
	}
	return float64(d.RemappedRows)
}

func (d DeviceInfo) resetFix() string {
	return fmt.Sprintf("stop the programs on it and reset the GPU (nvidia-smi -i %d -r), or reboot", d.Index)
}
