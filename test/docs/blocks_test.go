// Copyright The otelcol-retina Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the repository's.
var root = func() string {
	path, err := filepath.Abs("../..")
	if err != nil {
		panic(err)
	}
	return path
}()

// block is a fenced block of a document.
type block struct {
	file           string // below root
	line           int    // of its first line
	lang, is, text string // is: what the comment before it says
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.file, b.line) }

// langs are the languages that the tests know; a block of another one fails, so
// that no command hides behind a spelling.
var langs = []string{"", "yaml", "sh", "console", "powershell", "promql", "text"}

// documents are the Markdown files for users: all but the project's own (test
// beds, generated pages, contributing).
func documents(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", root, "ls-files", "-co", "--exclude-standard", "README.md", "docs/*.md", "distribution/*.md",
		"receiver/*.md", "processor/*.md", "extension/*.md", "exporter/*.md", "connector/*.md").Output()
	if err != nil {
		t.Fatalf("list the documents: %v", err)
	}
	files := strings.Fields(string(out))
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "documentation.md" }) // mdatagen's
	if len(files) < 10 {
		t.Fatalf("only %v", files)
	}
	return files
}

func blocks(t *testing.T, wanted ...string) []block {
	t.Helper()
	var found []block
	for _, file := range documents(t) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range parse(file, string(text)) {
			if !slices.Contains(langs, b.lang) {
				t.Errorf("%v: a block of language %q, known are %q", b, b.lang, langs)
			}
			if slices.Contains(wanted, b.lang) {
				found = append(found, b)
			}
		}
	}
	return found
}

var comment = regexp.MustCompile(`^<!-- docs-test: (.+) -->$`)

// parse returns the fenced blocks of a document.
func parse(file, text string) []block {
	var all []block
	var open *block
	fence, before := "", ""
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case open != nil && trimmed == fence:
			all = append(all, *open)
			open, before = nil, ""
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(trimmed, "```"):
			fence = trimmed[:len(trimmed)-len(strings.TrimLeft(trimmed, "`"))]
			open = &block{file: file, line: i + 2, lang: strings.TrimLeft(trimmed, "`")}
			if m := comment.FindStringSubmatch(before); m != nil {
				open.is = m[1]
			}
		case trimmed != "":
			before = trimmed
		}
	}
	return all
}

func TestParse(t *testing.T) {
	got := parse("x.md", "a\n<!-- docs-test: list -->\n\n```yaml\npods: []\n```\n```sh\nmake\n```\n````console\n$ x\n```\n````\n")
	want := []block{{"x.md", 5, "yaml", "list", "pods: []\n"}, {"x.md", 8, "sh", "", "make\n"}, {"x.md", 11, "console", "", "$ x\n```\n"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
