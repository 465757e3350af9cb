package main

import "regexp"

// blockPatterns are the patterns of comment blocks, in the order of kinds.
var blockPatterns = [commentKinds]*regexp.Regexp{
	regexp.MustCompile(`\b(is|are|be|was|were) (what|how|why|whether|that|those|when|where|who|as|of)\b`),
	regexp.MustCompile(`\b(that of|those of|such a|what is|where there is|the rest of|as they|as it|as far as|none where|at hand|beside)\b`),
	regexp.MustCompile(`\b(says?|said|tells?|told|knows|hears?|heard|speaks|gives back|goes on|takes off|stands|lies)\b`),
}

var (
	oneWord       = regexp.MustCompile(`^[a-z]+$`)
	prepositional = regexp.MustCompile(`^(of|in|on|at|by|to|for|with|without|within|from|over|under|after|before|beside|above|below|as|now|then|` +
		`why|what|where|how|who|again|apart|back|all|no|yes|bad|good|said|told|kept|made|given|asked|shown|seen|meant|whole|same|other|others|own)([A-Z].*)?$`)
)

// usual lists one-word names that the standard library uses too.
var usual = map[string]bool{
	"main": true, "init": true, "run": true, "close": true, "open": true, "read": true, "write": true, "len": true, "next": true, "reset": true,
	"add": true, "get": true, "set": true, "parse": true, "load": true, "save": true, "copy": true, "sort": true, "merge": true,
	"min": true, "max": true, "sum": true, "abs": true, "floor": true, "round": true,
}

func (r *room) addBlock(text string) {
	r.blocks++
	for k, p := range blockPatterns {
		if p.MatchString(text) {
			r.found[k]++
		}
	}
}

func (r *room) addFunction(name string) {
	r.functions++
	if oneWord.MatchString(name) && !usual[name] {
		r.found[commentKinds]++
	}
	if prepositional.MatchString(name) {
		r.found[commentKinds+1]++
	}
}
