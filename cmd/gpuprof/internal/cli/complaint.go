package cli

// Complaint is an error as --format json prints it: an object on one line of standard error. Output printed before it
// stays on standard output.
type Complaint struct {
	Message  string `json:"message"`         // what was being done, to what, and the cause
	Cause    string `json:"cause,omitempty"` // the error underneath, where there is one
	Fix      string `json:"fix"`             // empty where nothing is known to help
	ExitCode int    `json:"exit_code"`       // of the whole command
}
