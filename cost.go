package gpuprof

// Part is one kernel launch of an Op with its counted cost.
type Part struct {
	Kernel string
	Cost   Cost
}

// Cost is counted from the problem's sizes, not measured.
type Cost struct {
	Flops        int64 `json:"flops"` // of all precisions
	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	Launches     int64 `json:"launches"`
	// The operations in Flops that are not float32, by arithmetic.
	FP64 int64 `json:"fp64,omitempty"`
	TF32 int64 `json:"tf32,omitempty"`
	BF16 int64 `json:"bf16,omitempty"`
	FP16 int64 `json:"fp16,omitempty"`
	// Sequence is the number of launches that must each wait for the previous one, such as time steps of a recurrence.
	Sequence int64 `json:"sequence,omitempty"`
}

// Add returns the sum of two costs.
func (c Cost) Add(o Cost) Cost {
	return Cost{
		c.Flops + o.Flops, c.BytesRead + o.BytesRead, c.BytesWritten + o.BytesWritten, c.Launches + o.Launches,
		c.FP64 + o.FP64, c.TF32 + o.TF32, c.BF16 + o.BF16, c.FP16 + o.FP16, c.Sequence + o.Sequence,
	}
}

// Times returns n times a cost.
func (c Cost) Times(n int64) Cost {
	return Cost{
		c.Flops * n, c.BytesRead * n, c.BytesWritten * n, c.Launches * n,
		c.FP64 * n, c.TF32 * n, c.BF16 * n, c.FP16 * n, c.Sequence * n,
	}
}

// In returns the cost with the given number of its flops counted in a precision (fp32, tf32, bf16, fp16 or fp64).
func (c Cost) In(precision string, flops int64) Cost {
	switch precision {
	case "fp64":
		c.FP64 += flops
	case "tf32":
		c.TF32 += flops
	case "bf16":
		c.BF16 += flops
	case "fp16":
		c.FP16 += flops
	}
	return c
}

// Bytes returns all bytes moved.
func (c Cost) Bytes() int64 { return c.BytesRead + c.BytesWritten }
