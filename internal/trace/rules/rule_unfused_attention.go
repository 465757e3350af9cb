package rules

import (
	"fmt"
	"strings"

	"github.com/gpuprof/gpuprof/internal/trace/analyze"
	"github.com/gpuprof/gpuprof/internal/trace/model"
)

// scoreKernels limits the kernels between the two products of an attention: scale, mask, cast, softmax, dropout.
const scoreKernels = 16

// attentionRole is the possible role of an operation in an unfused attention.
type attentionRole uint8

const (
	noRole attentionRole = iota
	batchedProduct
	softmaxKernel
	scoreKernel // elementwise, between the products
)

// findUnfusedAttention reports a softmax between two batched matrix products, with only elementwise kernels in between.
// A fused kernel does not write the scores. So the finding claims the time in which only the kernels between the
// products run, forward and backward, and their delays from launch to start.
func (c *ruleContext) findUnfusedAttention() []analyze.Found {
	roles, any := c.assignAttentionRoles()
	if !any {
		return nil
	}
	scores := make([]bool, len(c.t.GPU))
	softmaxes, kernels, plain := 0, 0, false
	for _, d := range c.devices {
		for _, stream := range c.splitStreams(d) {
			softmaxes += c.markAttentions(stream, roles, scores)
		}
	}
	if softmaxes == 0 {
		return nil
	}
	ns := int64(0)
	s := c.newSites("kernel")
	pick := pickMarked(scores)
	c.eachSteadyOp(pick, func(_ *ruleDevice, g int32, op *model.GPU) {
		kernels, ns = kernels+1, ns+op.Dur()
		s.addGPU(g, op.Dur())
		plain = plain || c.isUnderAttention(g)
	})
	exposed := c.exclusiveByDevice(pick)
	cl := c.claimOps(pick, func(d *ruleDevice) model.Spans { return exposed[d.Device] })
	f := c.newFinding(cl, fmt.Sprintf("attention runs as single operators: %s between batched products write the scores to memory (%s)",
		analyze.Plural(softmaxes, "softmax", "softmaxes"), c.formatPerStep(c.runningTime(pick))))
	f.Evidence["softmaxes"] = softmaxes
	f.Evidence["kernels"] = kernels
	f.Evidence["kernel_ns"] = ns
	f.Evidence["exposed_ns"] = longestNS(exposed)
	f.Sites = s.topSites()
	f.PyTorch = `torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=..., is_causal=...) in place of product, softmax and product; in Transformers attn_implementation="sdpa"`
	if plain {
		f.PyTorch = "scaled_dot_product_attention runs its plain version here: give it fp16 or bf16 inputs and a mask that the fused kernels take; torch.nn.attention.sdpa_kernel says why one refuses"
	}
	f.Caveats = append(f.Caveats, "the products are not in the claim: a fused kernel reads and writes less for them too, and computes the scores once more in the backward pass")
	return []analyze.Found{f}
}

// markAttentions marks in scores the kernels between the two products of each attention on a stream, and returns the
// number of attentions.
func (c *ruleContext) markAttentions(stream []int32, roles []attentionRole, scores []bool) (n int) {
	var between []int32
	product, softmax := false, false
	for _, g := range stream {
		switch c.getAttentionRole(g, roles) {
		case batchedProduct:
			if softmax {
				n++
				for _, b := range between {
					scores[b] = true
				}
			}
			product, softmax, between = true, false, between[:0]
		case softmaxKernel:
			softmax = product
			between = append(between, g)
		case scoreKernel:
			between = append(between, g)
		default:
			product = false
		}
		if !product || len(between) > scoreKernels {
			product, softmax, between = false, false, between[:0]
		}
	}
	return n
}

// assignAttentionRoles returns the role of each kernel name; any is false without both a softmax and a product.
func (c *ruleContext) assignAttentionRoles() (roles []attentionRole, any bool) {
	roles = make([]attentionRole, len(c.t.Names))
	products, softmaxes := false, false
	for id, name := range c.t.Names {
		in := &c.x.Info[id]
		switch lower := strings.ToLower(name); {
		case in.Kernel == analyze.NoClass && c.names[id].matmul.kind == notMatmul:
		case strings.Contains(lower, "log_softmax"), strings.Contains(lower, "logsoftmax"):
		case strings.Contains(lower, "softmax"):
			roles[id], softmaxes = softmaxKernel, true
		case in.Kernel == analyze.GEMMClass:
			roles[id], products = batchedProduct, true
		case in.Kernel == analyze.ElementwiseClass, in.Kernel == analyze.CopyClass:
			roles[id] = scoreKernel
		}
	}
	return roles, products && softmaxes
}

// getAttentionRole returns the role of an operation by its kernel name; noRole if the operator that launched it
// excludes the role.
func (c *ruleContext) getAttentionRole(g int32, roles []attentionRole) attentionRole {
	op := &c.t.GPU[g]
	if op.Kind != model.Kernel {
		if op.Kind == model.Memset || op.Dir == model.D2D {
			return scoreKernel
		}
		return noRole
	}
	role := roles[op.Name]
	h := c.x.EnclosingOp(g)
	if h < 0 || role == noRole || role == scoreKernel {
		return role
	}
	switch name := c.t.Name(c.t.Host[h].Name); {
	case strings.Contains(name, "log_softmax"):
		return noRole
	case role == batchedProduct && (name == "aten::mm" || name == "aten::addmm" || strings.HasPrefix(name, "aten::_scaled_dot_product") || strings.Contains(name, "conv")):
		return noRole
	}
	return role
}

func (c *ruleContext) isUnderAttention(g int32) bool {
	for h := c.x.EnclosingOp(g); h >= 0; h = c.x.OpAbove(h) {
		if strings.Contains(c.t.Name(c.t.Host[h].Name), "scaled_dot_product_attention") {
			return true
		}
	}
	return false
}
