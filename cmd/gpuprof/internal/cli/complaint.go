package cli

// Complaint is an error as it is printed where --format json was asked for: an object in
// a line of standard error. What was printed before stays on standard output.
type Complaint struct {
	Message  string `json:"message"`         // what was being done, to what, and the cause
	Cause    string `json:"cause,omitempty"` // the error underneath, where there is one
	Fix      string `json:"fix"`             // empty where nothing is known to help
	ExitCode int    `json:"exit_code"`       // of the whole command
}
