package xla

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/gpuprof/gpuprof/internal/document"
)

// record is one event of the Chrome trace.
type record struct {
	Ph   string
	Pid  int64
	Tid  int64
	Name string
	TS   float64 // us
	Dur  float64 // us
	Args map[string]any
}

// readJSON reads the Chrome trace. Its processes are planes and its threads are lines. Their names may follow their
// events, so it reads the text twice.
func (c *converter) readJSON(ctx context.Context, text []byte) error {
	var events []byte
	document.JSONMembers(text, func(key string, value []byte) bool {
		if key == "traceEvents" {
			events = value
		}
		return events == nil
	})
	if events == nil {
		return fmt.Errorf("it has no whole array traceEvents")
	}
	planes, lines := map[int64]string{}, map[[2]int64]string{}
	var bad error
	each := func(mark string, f func(*record)) { // for events whose text contains mark
		document.JSONElements(events, func(raw []byte) bool {
			r := record{}
			if !bytes.Contains(raw, []byte(mark)) {
				return ctx.Err() == nil
			}
			if err := json.Unmarshal(raw, &r); err != nil {
				bad = err
			} else {
				f(&r)
			}
			return ctx.Err() == nil && !c.isOver()
		})
	}
	each(`"M"`, func(r *record) {
		name, _ := r.Args["name"].(string)
		switch {
		case r.Ph != "M":
		case r.Name == "process_name":
			planes[r.Pid] = name
		case r.Name == "thread_name":
			lines[[2]int64{r.Pid, r.Tid}] = name
		}
	})
	made, threads := map[int64]*plane{}, map[[2]int64]*line{}
	each("", func(r *record) {
		if r.Ph != "X" {
			return
		}
		if made[r.Pid] == nil {
			made[r.Pid] = c.newPlane(planes[r.Pid])
		}
		k := [2]int64{r.Pid, r.Tid}
		if threads[k] == nil {
			threads[k] = made[r.Pid].newLine(r.Tid, lines[k])
		}
		const most = 1e15 // us, thirty years
		if !(math.Abs(r.TS) <= most) || !(r.Dur >= 0 && r.Dur <= most) {
			return
		}
		e := event{name: r.Name, start: int64(math.Round(r.TS * 1000))}
		e.end = int64(math.Round((r.TS + r.Dur) * 1000))
		for key, v := range r.Args {
			s := stat{key: key, text: fmt.Sprint(v)}
			s.number, _ = strconv.ParseInt(s.text, 10, 64)
			s.real, _ = strconv.ParseFloat(s.text, 64)
			e.setStat(s)
		}
		c.addEvent(threads[k], &e)
	})
	return bad
}
