package gpuprof

import _ "embed" // the notices

//go:generate go run ./scripts/build/notices

//go:embed THIRD_PARTY_NOTICES.md
var thirdPartyNotices string

// ThirdPartyNotices returns the license texts of all linked modules as Markdown. go generate makes them from go.mod.
func ThirdPartyNotices() string { return thirdPartyNotices }
