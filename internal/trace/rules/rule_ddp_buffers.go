package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// findDDPBuffers reports that DistributedDataParallel broadcasts the module's buffers from the first rank before a
// forward pass: it flattens and sends them, and copies them back one by one. The finding claims the time in which only
// these operations run, their delays from launch to start, and the device's idle time while the host launches them.
func (c *ruleContext) findDDPBuffers() []analyze.Found {
	sent := c.findBroadcasts()
	if len(sent) == 0 || len(sent) < 2 && c.steps > 1 {
		return nil
	}
	pick := func(g int32) bool {
		l := c.t.GPU[g].Launch
		return l >= 0 && sent.Contains(c.t.Host[l].Start)
	}
	kernels, copies := 0, 0
	s := c.newSites("operation")
	c.eachSteadyOp(pick, func(_ *ruleDevice, g int32, op *model.GPU) {
		kernels++
		if c.x.Class(g) == model.Copy {
			copies++
		}
		s.addGPU(g, op.Dur())
	})
	exposed := c.exclusiveByDevice(pick)
	c.subtractWaits(exposed)
	cl := c.grantClaim(func(d *ruleDevice) model.Spans {
		got := c.l.ClaimGPU(d.Device, exposed[d.Device]).Or(c.claimQueued(d, d.waitsBefore(c, pick, true)))
		if c.isIdleUnsure(d) {
			return got
		}
		return got.Or(c.l.ClaimHost(d.Device, sent.Minus(d.uncertainIdle)))
	})
	f := c.newFinding(cl, fmt.Sprintf("DistributedDataParallel broadcasts buffers before the forward pass (%s, kernels and copies for %s)", analyze.Plural(len(sent), "time", "times"), c.formatPerStep(c.runningTime(pick))))
	f.Evidence["broadcasts"] = len(sent)
	f.Evidence["kernels"] = kernels
	f.Evidence["copy_kernels"] = copies
	f.Evidence["host_ns"] = sent.Total()
	f.Evidence["exposed_ns"] = longestNS(exposed)
	f.Sites = s.topSites()
	f.PyTorch = "DistributedDataParallel(..., broadcast_buffers=False), with torch.nn.SyncBatchNorm or one broadcast before an evaluation where buffers must agree"
	f.Caveats = append(f.Caveats, "without the broadcast each rank keeps the running statistics of its own batches")
	return []analyze.Found{f}
}

// findBroadcasts returns the time in which a thread broadcasts buffers, in the steps that are not dropped. It
// recognizes a broadcast by the order of its outermost operators (see broadcastRole).
func (c *ruleContext) findBroadcasts() model.Spans {
	roles := c.assignBroadcastRoles()
	if roles == nil {
		return nil
	}
	var out []model.Span
	var open model.Span
	lane, sends, copies := uint32(0), false, false
	end := func() {
		if sends && copies && c.x.InSteady(open.Start) {
			out = append(out, open)
		}
		open, sends, copies = model.Span{}, false, false
	}
	for i := range c.t.Host {
		h := &c.t.Host[i]
		if h.Kind != model.Op || c.x.OpAbove(int32(i)) >= 0 {
			continue
		}
		if h.Lane != lane {
			end()
			lane = h.Lane
		}
		role := roles[h.Name]
		switch {
		case role == roleSends || role == roleFlattens:
			if open.Len() == 0 {
				open.Start = h.Start
			}
			open.End = h.End
			sends = sends || role == roleSends
		case role == roleUnflattens && sends:
			copies = true
			open.End = h.End
		case role == roleCopies && copies:
			open.End = h.End
		case role == roleCopies && open.Len() > 0:
		default:
			end()
		}
	}
	end()
	return model.UnionOf(out)
}

// broadcastRole is the role of an operator in a broadcast of buffers; 0 for other operators.
type broadcastRole uint8

const (
	roleFlattens broadcastRole = iota + 1
	roleSends
	roleUnflattens
	roleCopies // copies or views a tensor
)

// assignBroadcastRoles returns the role of each NameID; nil if nothing is unflattened.
func (c *ruleContext) assignBroadcastRoles() []broadcastRole {
	var out []broadcastRole
	for id, name := range c.t.Names {
		if strings.Contains(name, "unflatten_dense_tensors") {
			if out == nil {
				out = make([]broadcastRole, len(c.t.Names))
			}
			out[id] = roleUnflattens
		}
	}
	if out == nil {
		return nil
	}
	for id, name := range c.t.Names {
		switch {
		case out[id] != 0:
		case strings.Contains(name, "flatten_dense_tensors"):
			out[id] = roleFlattens
		case strings.Contains(name, "c10d::broadcast"), strings.Contains(name, "nccl:broadcast"), strings.Contains(name, "_broadcast_coalesced"):
			out[id] = roleSends
		case name == "aten::copy_", name == "aten::view", name == "aten::narrow", name == "aten::reshape", name == "aten::view_as",
			name == "aten::as_strided", name == "aten::slice", name == "aten::detach", name == "aten::empty", name == "aten::to", name == "record_param_comms":
			out[id] = roleCopies
		}
	}
	return out
}
