package main

import (
	"bufio"
	"io"
	"regexp"
	"slices"
	"strings"
)

// code holds the instructions of a kernel and each instruction's possible successors.
type code struct {
	ops   []string // without predicates
	after [][]int
}

var (
	labelLine = regexp.MustCompile(`^\s*(\.L_x_\d+):`)
	opLine    = regexp.MustCompile(`^\s*/\*[0-9a-f]+\*/\s+(@!?U?P\w+\s+)?([^;]+);?`)
	labelUsed = regexp.MustCompile(`\.L_x_\d+`)
)

// read parses the first kernel of the output of `nvdisasm -c`.
func read(r io.Reader) (code, error) {
	var c code
	at := map[string]int{}
	var predicated []bool
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := labelLine.FindStringSubmatch(lines.Text()); m != nil {
			at[m[1]] = len(c.ops)
		} else if m := opLine.FindStringSubmatch(lines.Text()); m != nil {
			// The comment after the instruction lists the targets of BRX.
			_, targets, _ := strings.Cut(lines.Text(), "BRANCH_TARGETS")
			c.ops = append(c.ops, strings.TrimSpace(m[2])+" "+targets)
			predicated = append(predicated, m[1] != "")
		}
	}
	c.after = make([][]int, len(c.ops))
	for i, op := range c.ops {
		name, rest, _ := strings.Cut(op, " ")
		ends := false
		switch base, _, _ := strings.Cut(name, "."); base {
		case "BRA", "BRX", "JMP", "JMX":
			// `BRA.DIV UR, L` and `BRA P0, L` fall through unless all lanes jump.
			ends = !predicated[i] && (base == "BRX" || base == "JMX" || !strings.Contains(rest, ","))
			fallthrough
		case "WARPSYNC", "CALL":
			for _, label := range labelUsed.FindAllString(rest, -1) {
				if to, ok := at[label]; ok && to < len(c.ops) {
					c.after[i] = append(c.after[i], to)
				}
			}
		case "EXIT", "RET":
			ends = !predicated[i]
		}
		if !ends && i+1 < len(c.ops) {
			c.after[i] = append(c.after[i], i+1)
		}
	}
	return c, lines.Err()
}

// loop holds the instructions of a natural loop in order.
type loop struct {
	head int
	body []int
}

// findLoops returns the kernel's natural loops. The head of a loop is the target of a jump back from an instruction
// that the head dominates. The loop has its head, and all instructions that reach such a jump without passing the head.
func (c code) findLoops() []loop {
	before := make([][]int, len(c.ops))
	for i, to := range c.after {
		for _, t := range to {
			before[t] = append(before[t], i)
		}
	}
	reached := c.reachable(-1)
	bodies := map[int]map[int]bool{}
	for i, to := range c.after {
		for _, head := range to {
			if head > i || !reached[i] || c.reachable(head)[i] && head != i {
				continue
			}
			body := bodies[head]
			if body == nil {
				body = map[int]bool{head: true}
				bodies[head] = body
			}
			for work := []int{i}; len(work) > 0; {
				n := work[len(work)-1]
				work = work[:len(work)-1]
				if !body[n] && reached[n] {
					body[n] = true
					work = append(work, before[n]...)
				}
			}
		}
	}
	var all []loop
	for head, body := range bodies {
		one := loop{head: head}
		for i := range body {
			one.body = append(one.body, i)
		}
		slices.Sort(one.body)
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b loop) int { return a.head - b.head })
	return all
}

// reachable marks the instructions that execution can reach from the first one without passing the instruction with
// index wall.
func (c code) reachable(wall int) []bool {
	seen := make([]bool, len(c.ops))
	for work := []int{0}; len(work) > 0; {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if n == wall || seen[n] {
			continue
		}
		seen[n] = true
		work = append(work, c.after[n]...)
	}
	return seen
}

// isInside reports whether outer contains l.
func (l loop) isInside(outer loop) bool {
	_, ok := slices.BinarySearch(outer.body, l.head)
	return ok && l.head != outer.head
}
