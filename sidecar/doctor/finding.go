package doctor

// Status is the severity of a finding.
type Status string

// The statuses. An Error prevents the service from starting or from doing its work; a Warning costs speed or safety.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Error   Status = "error"
)

// Finding is a result of a check.
type Finding struct {
	Check  string `json:"check"` // such as "memory"
	Status Status `json:"status"`
	Detail string `json:"detail"`        // what was found
	Fix    string `json:"fix,omitempty"` // what to change; "" if the status is OK
}
