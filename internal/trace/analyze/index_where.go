package analyze

import (
	"slices"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// Site returns the place of a host event in the program. It is the first that exists of: the innermost Python frame of
// user code around the event ("train.py(41): step"); the innermost user frame of the nearest recorded stack; the
// innermost frame of any code; the module or annotation; the operator; the name of the event. User code does not call
// the operators of the backward pass, so events there get the place of the forward operator and "(backward)".
func (x *Index) Site(host int32) string {
	if f := x.ForwardOf(host); f >= 0 {
		if where := x.siteOf(f); isFrame(where) {
			return where + " (backward)"
		}
	}
	return x.siteOf(host)
}

func (x *Index) siteOf(host int32) string {
	t := x.T
	frame := int32(-1)
	for h := host; h >= 0; h = x.parent[h] {
		if t.Host[h].Kind != model.Python {
			continue
		}
		f := x.Info[t.Host[h].Name].Flags
		if f&nameFrame == 0 {
			continue
		}
		if f&nameLibrary == 0 {
			return t.Name(t.Host[h].Name)
		}
		if frame < 0 {
			frame = h
		}
	}
	stack, isUser := x.stackSite(host)
	if frame >= 0 && !isUser {
		return t.Name(t.Host[frame].Name)
	}
	if stack != "" {
		return stack
	}
	if m := x.Module(host); m != "" {
		return m
	}
	if op := x.op[host]; op >= 0 {
		return t.Name(t.Host[op].Name)
	}
	return t.Name(t.Host[host].Name)
}

// stackSite returns the innermost frame of user code in the nearest recorded stack that has user code. Without one, it
// returns the innermost frame of the nearest stack. isUser reports that the frame is user code.
func (x *Index) stackSite(host int32) (frame string, isUser bool) {
	for h := host; h >= 0; h = x.parent[h] {
		stack := x.T.StackOf(&x.T.Host[h])
		if stack == "" {
			continue
		}
		frames := strings.Split(stack, ";")
		for _, f := range slices.Backward(frames) {
			f = strings.TrimSpace(f)
			if !isFrame(f) {
				continue
			}
			if !isLibraryFrame(f) {
				return f, true
			}
			if frame == "" {
				frame = f
			}
		}
	}
	return frame, false
}

// Module returns the innermost part of the model around a host event: an nn.Module ("Conv2d_0") or a range named by
// the program; "" none. Operators of the backward pass belong to the module whose gradient they compute.
func (x *Index) Module(host int32) string {
	m := x.moduleOf(host)
	if m < 0 {
		return ""
	}
	return x.moduleName(m)
}

func (x *Index) moduleName(m int32) string { return trimModule(x.T.Name(x.T.Host[m].Name)) }

func trimModule(name string) string { return strings.TrimPrefix(name, modulePrefix) }

// moduleOf returns the innermost nn.Module call or named range around a host event, -1 none. For an event of the
// backward pass it returns the module of the forward operator, because a range may enclose the whole backward pass.
func (x *Index) moduleOf(host int32) int32 {
	if f := x.ForwardOf(host); f >= 0 && x.mod[f] >= 0 {
		return x.mod[f]
	}
	return x.mod[host]
}

// Frames returns the Python frames around a host event, the innermost first. They come from recorded frame events, else
// from the nearest recorded stack; nil without either.
func (x *Index) Frames(host int32) []string {
	var out []string
	for h := host; h >= 0; h = x.parent[h] {
		e := &x.T.Host[h]
		if e.Kind == model.Python && x.Info[e.Name].Flags&nameFrame != 0 {
			out = append(out, x.T.Name(e.Name))
		}
	}
	for h := host; h >= 0 && len(out) == 0; h = x.parent[h] {
		for _, f := range slices.Backward(strings.Split(x.T.StackOf(&x.T.Host[h]), ";")) {
			if f = strings.TrimSpace(f); isFrame(f) {
				out = append(out, f)
			}
		}
	}
	return out
}
