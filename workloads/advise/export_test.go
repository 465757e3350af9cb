package advise

// RuleIDs are the ids of all rules over runs, in the order in which they claim time.
func RuleIDs() []string {
	var ids []string
	for _, r := range ruleTable() {
		ids = append(ids, r.id)
	}
	return ids
}
