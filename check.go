package gpuprof

// Check is the comparison of one stage with its reference.
type Check struct {
	Stage string `json:"stage"`
	// RelativeError is ||out-ref|| / ||ref||; null when not a number.
	RelativeError Number  `json:"relative_error"`
	Tolerance     float64 `json:"tolerance"`
	Pass          bool    `json:"pass"`
	Rows          string  `json:"rows,omitempty"` // "all 512" or "66 of 3000"
	// Virtual says that a mean in virtual time was compared with theory: its error is that of a finite
	// simulation of the method, and none of what the settings compute.
	Virtual bool `json:"virtual,omitempty"`
}

// CheckReport is what gpuprof run --check says of a workload on a device: cases where vectors of
// another program were given, the stages otherwise.
type CheckReport struct {
	Head
	Workload string       `json:"workload"`
	Preset   string       `json:"preset,omitempty"`
	Device   string       `json:"device"`
	Cases    []CaseResult `json:"cases,omitempty"`
	Stages   []Check      `json:"stages,omitempty"`
}

// Failed is how many of the comparisons disagree with the reference, and of how many.
func (r *CheckReport) Failed() (failed, all int) {
	for _, c := range r.Cases {
		if !c.Pass {
			failed++
		}
	}
	for _, c := range r.Stages {
		if !c.Pass {
			failed++
		}
	}
	return failed, len(r.Cases) + len(r.Stages)
}

// CaseResult is the comparison of one vector case.
type CaseResult struct {
	Kind          string  `json:"kind"`
	Index         int     `json:"index"`
	Precision     string  `json:"precision"` // "float32" or "float64"
	RelativeError Number  `json:"relative_error"`
	Tolerance     float64 `json:"tolerance"`
	Pass          bool    `json:"pass"`
}
