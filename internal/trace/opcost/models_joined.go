package opcost

const (
	joinedSource = "flash_attn_interface.py: queries of one length times the tokens of all keys"
	pagedSource  = "none: the lengths of the sequences decide"
)

// pagedAttention has no cost, because no argument has the lengths of the sequences in the cache.
func pagedAttention(c *call) (flops, bytes float64) {
	c.uncounted = NoLengths
	return 0, 0
}

// joinedAttention counts attention over sequences that are concatenated to [tokens, heads, head size]. Arguments: q,
// k, v, the ends of the sequences of q and k (values not recorded), and the longest sequence of q and of k.
func joinedAttention(c *call) (flops, bytes float64) {
	if c.hasTensor(15) || c.hasTensor(17) { // block_table: the keys are paged; seqused_k: only a part of the keys is used
		return pagedAttention(c)
	}
	q, k, v := c.tensorDims(0, 3), c.tensorDims(1, 3), c.tensorDims(2, 3)
	return c.attentionForward(c.joinedScores(q, k, 3, 9), q[0]*q[1], q[2], v[2])
}

// joinedAttentionBackward counts five products, one of which recomputes the scores. Arguments: gradient of the
// output, q, k, v, output, its row sums, dq, dk, dv, ends of the sequences, longest sequences.
func joinedAttentionBackward(c *call) (flops, bytes float64) {
	q, k, v := c.tensorDims(1, 3), c.tensorDims(2, 3), c.tensorDims(3, 3)
	return c.attentionBackward(c.joinedScores(q, k, 9, 15), q[0]*q[1], q[2], v[2])
}

// flashAttention counts attention over q, k and v of shape [batch, tokens, heads, head size].
func flashAttention(c *call) (flops, bytes float64) {
	q, v := c.tensorDims(0, 4), c.tensorDims(2, 4)
	return c.attentionForward(c.flashScores(q, c.tensorDims(1, 4), 5), q[0]*q[1]*q[2], q[3], v[3])
}

func flashAttentionBackward(c *call) (flops, bytes float64) {
	q, v := c.tensorDims(1, 4), c.tensorDims(3, 4)
	return c.attentionBackward(c.flashScores(q, c.tensorDims(2, 4), 11), q[0]*q[1]*q[2], q[3], v[3])
}

func (c *call) flashScores(q, k []int64, causal int) float64 {
	return float64(q[2]) * c.maskedScores(q[0], q[1], k[1], q[0]*q[1], k[0]*k[1], causal)
}

// joinedScores returns the number of attention scores of all heads. ends is the index of argument cu_seqlens_q,
// followed by cu_seqlens_k, max_seqlen_q and max_seqlen_k. causal is the index of argument causal, followed by
// window_size_left and window_size_right.
//
// The lengths of the sequences of q are known only if all are equally long (tokens = sequences · longest). A head then
// has length · key tokens scores. A causal mask is aligned to the last key and removes n(n-1)/2 scores per sequence
// with n queries and at least n keys. All sequences certainly have n keys if n is 1, or if all sequences of k are
// equally long too.
func (c *call) joinedScores(q, k []int64, ends, causal int) float64 {
	return float64(q[1]) * c.maskedScores(c.tensorDims(ends, 1)[0]-1, c.requireInteger(ends+2), c.requireInteger(ends+3), q[0], k[0], causal)
}

// maskedScores returns the number of scores of one head. Each sequence has at most queries queries and keys keys;
// tokens and keyTokens are the sums over all sequences.
func (c *call) maskedScores(sequences, queries, keys, tokens, keyTokens int64, causal int) float64 {
	left, right := c.requireInteger(causal+1), c.requireInteger(causal+2)
	masked := c.flagValue(causal)
	window := left >= 0 || right >= 0 && (right > 0 || !masked)
	if c.missing || c.bad {
		return 0
	}
	switch {
	case window, masked && keys < queries:
		c.uncounted = NoMask
		return 0
	case sequences <= 0, tokens != sequences*queries, masked && queries != 1 && keyTokens != sequences*keys:
		c.uncounted = NoLengths
		return 0
	}
	scores := float64(queries) * float64(keyTokens)
	if masked {
		scores -= float64(sequences) * float64(queries) * float64(queries-1) / 2
	}
	return scores
}
