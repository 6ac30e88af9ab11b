// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package hns

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/otelcol-retina/otelcol-retina/receiver/hnsstatsreceiver/internal/endpoint"
)

// portCounters are the counters of a VFP port. VFP's direction is the pod's: OUT
// (egress) is what the pod transmits.
type portCounters struct {
	value [endpoint.NumDirections][numCounters]uint64
	has   [numCounters]bool
}

// errNoCounters means that an answer holds not one counter that we know, or not
// both directions of it.
var errNoCounters = errors.New("no port counters in vfpctrl's answer")

// refusal is vfpctrl.exe's own word that it failed. Its exit code is 0 at times.
type refusal string

func (r refusal) Error() string { return "vfpctrl refused: " + string(r) }

// parseCounters parses the answer of vfpctrl's /get-port-counter in either form,
// and says whether it was JSON. An answer that can't be read to its end is an
// error, never a zero.
func parseCounters(out []byte) (c *portCounters, isJSON bool, err error) {
	out = decodeText(out)
	if err := refused(out); err != nil {
		return nil, false, err
	}
	b := directionCounters{}
	if isJSON = looksLikeJSON(out); isJSON {
		err = b.readJSON(out)
	} else {
		err = b.readText(out)
	}
	if err != nil {
		return nil, isJSON, err
	}
	if c, err = b.both(); errors.Is(err, errNoCounters) {
		err = fmt.Errorf("%w: %s", err, excerpt(out))
	}
	return c, isJSON, err
}

// directionCounters gathers the counters of each direction while an answer is
// read.
type directionCounters struct {
	portCounters
	seen [endpoint.NumDirections]bool
	set  [endpoint.NumDirections][numCounters]bool
}

// begin starts the counters of one direction.
func (b *directionCounters) begin(d endpoint.Direction) error {
	if b.seen[d] {
		return fmt.Errorf("vfpctrl's answer has the direction %s twice", directionName(d))
	}
	b.seen[d] = true
	return nil
}

// put takes one counter.
func (b *directionCounters) put(d endpoint.Direction, c counter, v uint64) error {
	if b.set[d][c] {
		return fmt.Errorf("vfpctrl's answer has the counter %q twice for direction %s", c, directionName(d))
	}
	b.set[d][c] = true
	b.value[d][c] = v
	return nil
}

// both returns the counters if both directions have the same ones.
func (b *directionCounters) both() (*portCounters, error) {
	known := false
	for c := range numCounters {
		in, out := b.set[endpoint.Receive][c], b.set[endpoint.Transmit][c]
		if in != out && b.seen[endpoint.Receive] && b.seen[endpoint.Transmit] {
			return nil, fmt.Errorf("vfpctrl's answer is incomplete: the counter %q is there for one direction only", c)
		}
		b.has[c] = in && out
		known = known || b.has[c]
	}
	if !known {
		return nil, errNoCounters
	}
	c := b.portCounters
	return &c, nil
}

func directionName(d endpoint.Direction) string {
	if d == endpoint.Transmit {
		return "OUT"
	}
	return "IN"
}

// directionNamed understands a direction's name in either form of the answer.
func directionNamed(s string) (endpoint.Direction, bool) {
	switch strings.ToLower(s) {
	case "out", "0", "egress", "outbound":
		return endpoint.Transmit, true
	case "in", "1", "ingress", "inbound":
		return endpoint.Receive, true
	}
	return 0, false
}

// readText reads the text form: headings "Direction - OUT" and "Direction - IN",
// in any order, each followed by lines "name : value". Other lines are ignored.
//
//	Direction - OUT
//	  SYN packets                         : 101
func (b *directionCounters) readText(out []byte) error {
	var (
		d      endpoint.Direction
		inside bool
	)
	for line := range bytes.Lines(out) {
		line = bytes.TrimSpace(line)
		if heading, ok := cutDirection(line); ok {
			if d, inside = directionNamed(heading); !inside {
				return fmt.Errorf("vfpctrl's answer has the unknown direction %q", line)
			}
			if err := b.begin(d); err != nil {
				return err
			}
			continue
		}
		at := bytes.LastIndexByte(line, ':')
		if at < 0 {
			continue
		}
		c, ok := counterNamed(string(line[:at]))
		if !ok {
			continue
		}
		if !inside {
			return fmt.Errorf("vfpctrl's answer has the counter %q before any direction", line)
		}
		v, err := parseCount(string(line[at+1:]))
		if err != nil {
			return fmt.Errorf("vfpctrl's counter %q: %w", line, err)
		}
		if err := b.put(d, c, v); err != nil {
			return err
		}
	}
	return nil
}

// cutDirection returns what follows the word "Direction" in a heading. Any other
// line has more than one word after it, or doesn't begin with it.
func cutDirection(line []byte) (string, bool) {
	const word = "direction"
	if len(line) < len(word) || !strings.EqualFold(string(line[:len(word)]), word) {
		return "", false
	}
	rest := strings.Trim(string(line[len(word):]), " \t-:=")
	return rest, rest != "" && !strings.ContainsAny(rest, " \t:")
}

// parseCount parses a whole number that may have thousands separators, as some
// locales write them: "1,234", "1.234", "1 234", "1'234", "12,34,567".
func parseCount(s string) (uint64, error) {
	s = strings.TrimSpace(s)
	var (
		v      uint64
		digits int // in the current group
		groups int // ended by a separator
		sep    rune
	)
	for _, r := range s {
		switch {
		case '0' <= r && r <= '9':
			next := v*10 + uint64(r-'0')
			if v > (1<<64-1)/10 || next < v*10 {
				return 0, fmt.Errorf("%q is larger than 64 bits", s)
			}
			v = next
			digits++
		case isSeparator(r):
			// Groups have three digits, in India two but for the last, and the
			// first may be shorter.
			if digits == 0 || digits > 3 || groups > 0 && (digits < 2 || r != sep) {
				return 0, fmt.Errorf("%q is no whole number", s)
			}
			digits = 0
			groups++
			sep = r
		default:
			return 0, fmt.Errorf("%q is no whole number", s)
		}
	}
	if digits == 0 || groups > 0 && digits != 3 {
		return 0, fmt.Errorf("%q is no whole number", s)
	}
	return v, nil
}

// isSeparator reports whether r separates thousands in some locale. The
// replacement rune stands for a no-break space in one of the old code pages.
func isSeparator(r rune) bool {
	switch r {
	case ',', '.', ' ', '\'', '\u2019', '\u00a0', '\u202f', utf8.RuneError:
		return true
	}
	return false
}

// refused returns vfpctrl's message if its answer is one. Successful answers
// begin otherwise, and end in "Command … succeeded!".
func refused(out []byte) error {
	const word = "error"
	out = bytes.TrimSpace(out)
	if len(out) < len(word) || !strings.EqualFold(string(out[:len(word)]), word) {
		return nil
	}
	return refusal(excerpt(out))
}

// excerpt is the beginning of an answer on one line, for an error.
func excerpt(out []byte) string {
	const enough = 200
	return strings.ToValidUTF8(strings.Join(strings.Fields(string(out[:min(len(out), enough)])), " "), "?")
}

// decodeText returns UTF-16, which Windows programs write to a pipe at times, as
// UTF-8, and anything else without a byte order mark.
func decodeText(b []byte) []byte {
	little := len(b) >= 2 && (b[0] == 0xff && b[1] == 0xfe || b[0] != 0 && b[1] == 0)
	big := len(b) >= 2 && (b[0] == 0xfe && b[1] == 0xff || b[0] == 0 && b[1] != 0)
	if !little && !big {
		return bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	}
	units := make([]uint16, 0, len(b)/2)
	for i := 0; i+1 < len(b); i += 2 {
		u := uint16(b[i]) | uint16(b[i+1])<<8
		if big {
			u = u<<8 | u>>8
		}
		units = append(units, u)
	}
	return bytes.TrimPrefix([]byte(string(utf16.Decode(units))), []byte("\ufeff"))
}
