package docs

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

type block struct {
	line     int // of its first line of text
	language string
	options  map[string]string // a word without a value has the value ""
	text     string
}

func (b block) has(option string) bool { _, ok := b.options[option]; return ok }

var (
	fence  = regexp.MustCompile("^ *(```+)(.*)$")
	option = regexp.MustCompile(`^\s*(config|checked|file|run|start|output|post|answer|page|say|install|figure|skip)(?:=("[^"]*"|[^\s"]+))?(?:\s|$)`)
)

func parse(page string) ([]block, error) {
	var blocks []block
	var open *block
	var end string
	for i, line := range strings.Split(page, "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open == nil && m == nil:
		case open == nil:
			b, err := newBlock(i+2, m[2])
			if err != nil {
				return nil, err
			}
			open, end = &b, m[1]
		case m != nil && m[1] == end && m[2] == "":
			blocks, open = append(blocks, *open), nil
		default:
			open.text += line + "\n"
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the block does not end", open.line)
	}
	return blocks, nil
}

func newBlock(line int, info string) (block, error) {
	language, rest, _ := strings.Cut(info, " ")
	b := block{line: line, language: language, options: map[string]string{}}
	for strings.TrimSpace(rest) != "" {
		m := option.FindStringSubmatch(rest)
		if m == nil {
			return b, fmt.Errorf("line %d: not an option: %s", line-1, rest)
		}
		b.options[m[1]] = strings.Trim(m[2], `"`)
		rest = rest[len(m[0]):]
	}
	return b, nil
}

func TestParse(t *testing.T) {
	blocks, err := parse("a\n```json config\n{}\n```\n\n  ```text page=http://x/ say=\"a b\"\nx\n  ```\n````md figure\n```\n````\n")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(blocks); got != "[{3 json map[config:] {}\n} {7 text map[page:http://x/ say:a b] x\n} {10 md map[figure:] ```\n}]" {
		t.Errorf("parsed as %q", got)
	}
	for _, wrong := range []string{"```sh\nx\n", "```sh RUN\n```\n", "```sh runs\n```\n", "```sh say=\"a\n```\n"} {
		if b, err := parse(wrong); err == nil {
			t.Errorf("%q is taken as %v", wrong, b)
		}
	}
}
