package record

import (
	"fmt"
	"os"
	"strings"
)

// explainCUDA adds a warning with a remedy for each part that the CUDA recorder could not record.
func explainCUDA(o *Options, r *Result) {
	if len(r.CUDA) == 0 {
		explainNotLoaded(o, r)
		return
	}
	aside, cut := 0, false
	for i := range r.CUDA {
		p := &r.CUDA[i]
		explainCUDAProcess(o, r, p)
		if p.Aside == "torch" {
			aside++
		}
		cut = cut || p.CUPTI != 0 && p.Ended == ""
	}
	switch {
	case len(r.Traces) > 0 || len(r.Warnings) > 0:
	case o.Idle:
		r.warn("no-window", "the program ended before a window was recorded in it", "run gpuprof run record "+o.Dir+" while it runs")
	case aside > 0:
		r.warn("recorder-aside", "the program uses PyTorch, which has a profiler of its own, so the CUDA recorder stood back", "leave out --no-cuda and --cuda to record it by the hook")
	case cut:
		r.warn("no-kernels", "the program was killed, or left by _exit, before the recorder wrote what it launched, so there is no trace", "let it run longer than a tenth of a second: the recorder writes that often")
	default:
		r.warn("no-kernels", "the program started CUDA and launched nothing on a device, so there is no trace", "")
	}
	if n := len(r.Traces); n > 1 && !o.Idle && !strings.Contains(r.Traces[0], "-rank") {
		r.warn("several-processes", fmt.Sprintf("%d processes were recorded that are no ranks of one job, and are analysed together", n), "for one by itself: gpuprof analyze "+r.Traces[0])
	}
}

// explainNotLoaded warns that no process wrote to the recorder's status file, with the probable reason.
func explainNotLoaded(o *Options, r *Result) {
	if hasFile(o.Dir, cudaStatus) { // loaded, but not even a line fitted into its file
		r.warn("no-space", "the program could not write its recording (no space left in "+o.Dir+"), and went on", "free some space there or choose another folder with -o")
		for _, path := range listRecordings(o.Dir) {
			_ = os.Remove(path) // the file holds no event
		}
		return
	}
	if looksPython(o.Args) && !importsOtherFramework(o.Args) && o.CUDA == CUDAAuto {
		explainNoPython(o, r)
		return
	}
	r.warn("recorder-not-loaded", "no process of the program loaded the CUDA recorder, so there is only wall time, memory and processor time: it used no GPU, or it runs where "+o.Dir+" is not visible or its environment is another (sudo, ssh, a container), or it is a set-uid program", "start gpuprof inside the container or on the other machine")
}

func explainCUDAProcess(o *Options, r *Result, p *CUDAProcess) {
	who := fmt.Sprintf("process %d", p.PID)
	for _, e := range p.Errors {
		explainCUDAError(o, r, p, who, &e)
	}
	if p.Ended == "limit" && !o.Rolling {
		fix := "give a lower --window-after or --time-window for a shorter recording"
		if o.Idle {
			fix = "give a lower --time-window for a shorter recording"
		}
		r.warn("recording-limit", who+" was recorded until its file or the time reached the recorder's limit, and runs on without it", fix)
	}
	if len(p.Lost) == 5 && p.Lost[0]+p.Lost[1]+p.Lost[2] > 0 {
		r.warn("lost-records", fmt.Sprintf("the recording of %s lacks %d records that CUPTI dropped, %d buffers that found no room and %d records that could not be written", who, p.Lost[0], p.Lost[1], p.Lost[2]), "record a shorter stretch, into a folder with room")
	}
}

// CUPTI's error codes (CUptiResult) for which explainCUDAError has a warning.
const (
	cuptiOtherDriver  = 15
	cuptiNotSupported = 34
	cuptiSubscribed   = 39
)

func explainCUDAError(o *Options, r *Result, p *CUDAProcess, who string, e *CUDAError) {
	recorded := p.CUPTI != 0 // another libcupti worked after this one had failed
	switch {
	case e.Where == "write" || e.Where == "open":
		fix := fmt.Sprintf("free some space in %s or choose another folder with -o", o.Dir)
		if o.Idle {
			fix = fmt.Sprintf("free some space in %s and record again", o.Dir)
		}
		r.warn("no-space", fmt.Sprintf("%s could not write its recording (%s), and the program went on", who, e.Text), fix)
	case recorded || e.Where == "cupti" && len(p.Errors) > 1:
	case e.Where == "subscribe" && e.Code == cuptiSubscribed:
		other := "another profiler"
		if e.Other != "" {
			other = "another profiler (" + strings.TrimSpace(e.Other) + ")"
		}
		r.warn("other-profiler", other+" holds "+who+", so no kernel was recorded", "take it out, or give its own trace to gpuprof analyze")
	case e.Where == "subscribe" && (e.Code == cuptiOtherDriver || e.Code == cuptiNotSupported):
		have := CUPTI{CUDA: releaseOf(e.Version)}.Release()
		fix := "give one that is not newer than the driver with --cupti PATH"
		if o.DriverCUDA > 0 {
			fix = "give one for CUDA " + CUPTI{CUDA: o.DriverCUDA}.Release() + " or older with --cupti PATH"
		}
		r.warn("cupti-driver", fmt.Sprintf("libcupti %s (%s) does not work with this driver", have, e.CUPTI), fix)
	case e.Where == "cupti":
		text, fix := missingCUPTI(nil)
		r.warn("no-cupti", who+" found no libcupti that works: "+text, fix)
	default:
		r.warn("recorder-failed", fmt.Sprintf("the CUDA recorder gave up in %s (%s %s), and the program was not touched", who, e.Where, strings.TrimSpace(fmt.Sprint(e.Text, " ", e.CUPTI))), "")
	}
}

// injectionTaken returns another tool's library that CUDA_INJECTION64_PATH names; "" without one.
func injectionTaken(env []string) string {
	path := lookup(env, envInjection)
	if _, err := os.Stat(path); path == "" || err != nil {
		return ""
	}
	return path
}
