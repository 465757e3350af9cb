package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// share is a part of a whole as flags take it: "5%" or 0.05. Every flag that is
// one is read here.
type share float64

// UnmarshalText implements encoding.TextUnmarshaler, for kong.
func (s *share) UnmarshalText(text []byte) (err error) {
	*s, err = readShare(string(text))
	return err
}

// readShare reads "5%" or "0.05". A bare number of 1 or more is refused: who
// types 5 means 5 %, not 500 %. So is what is negative or not finite.
func readShare(text string) (share, error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	number = strings.TrimSpace(number)
	v, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || math.IsNaN(v) || math.IsInf(v, 0):
		return 0, fmt.Errorf("%q is not a number", text)
	case v < 0:
		return 0, fmt.Errorf("%s is below 0", text)
	case percent:
		return share(v / 100), nil
	case v >= 1:
		return 0, fmt.Errorf("%s without %% is %s%% (did you mean %s%%?)", number, strconv.FormatFloat(100*v, 'g', -1, 64), number)
	}
	return share(v), nil
}
