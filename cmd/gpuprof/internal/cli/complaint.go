package cli

// Complaint is an error as --format json prints it: a JSON object on one line of standard error.
type Complaint struct {
	Message  string `json:"message"`         // what failed, for which object, and the cause
	Cause    string `json:"cause,omitempty"` // the underlying error, if there is one
	Fix      string `json:"fix"`             // empty if no fix is known
	ExitCode int    `json:"exit_code"`       // of the whole command
}
