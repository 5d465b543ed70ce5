// Package reference writes the pages of docs/reference from the code: the command line, the HTTP endpoints, the
// metrics and the error codes. It is used by tests, which fail when a page is out of date.
package reference

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Check compares a page with docs/reference/name of this repository. With update it writes the file. The directory root is
// the root of the repository, relative to the package of the test.
func Check(t *testing.T, root, name, content string, update bool) {
	t.Helper()
	path := filepath.Join(root, "docs", "reference", name)
	if update {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	committed, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if string(committed) != content {
		t.Errorf("docs/reference/%s is out of date at line %d: run go test %s -run '^%s$' -update",
			name, firstDifference(string(committed), content), packageOf(root), t.Name())
	}
}

// packageOf returns the package of the test in the form that the go command accepts at the root of the repository.
func packageOf(root string) string {
	dir, err := os.Getwd()
	if err != nil {
		return "PACKAGE"
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return "PACKAGE"
	}
	relative, err := filepath.Rel(top, dir)
	if err != nil {
		return "PACKAGE"
	}
	return "./" + filepath.ToSlash(relative)
}

// firstDifference returns the number of the first line that differs, from 1.
func firstDifference(a, b string) int {
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return i + 1
		}
	}
	return min(len(left), len(right)) + 1
}

// page is a Markdown page in progress.
type page struct{ strings.Builder }

// newPage starts a page with the title and the source from which it is generated.
func newPage(title, source string) *page {
	p := &page{}
	p.paragraph("# " + title)
	p.paragraph("<!-- Generated from " + source + " by a test, which says how to update it. Do not edit. -->")
	return p
}

// paragraph writes text, if there is any, and the empty line below it.
func (p *page) paragraph(text string) {
	if text != "" {
		fmt.Fprintf(p, "%s\n\n", text)
	}
}

func (p *page) fence(language, text string) {
	fmt.Fprintf(p, "```%s\n%s\n```\n\n", language, strings.TrimRight(text, "\n"))
}

// table writes rows below a head, and nothing without rows.
func (p *page) table(head []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.row(head)
	p.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	for _, row := range rows {
		p.row(row)
	}
	p.WriteByte('\n')
}

func (p *page) row(cells []string) {
	for _, cell := range cells {
		p.WriteString("| " + strings.ReplaceAll(strings.Join(strings.Fields(cell), " "), "|", `\|`) + " ")
	}
	p.WriteString("|\n")
}

func (p *page) String() string { return strings.TrimRight(p.Builder.String(), "\n") + "\n" }

// code returns text as inline code, or nothing for an empty text.
func code(text string) string {
	switch {
	case text == "":
		return ""
	case strings.Contains(text, "`"):
		return "`` " + text + " ``"
	}
	return "`" + text + "`"
}

// prose escapes plain text so that its only Markdown markup is `code`.
func prose(text string) string {
	var out strings.Builder
	for i, part := range strings.Split(text, "`") {
		if i%2 == 1 {
			out.WriteString("`" + part + "`")
			continue
		}
		out.WriteString(strings.NewReplacer("<", `\<`, "*", `\*`).Replace(part))
	}
	return out.String()
}

// anchor returns the fragment that GitHub assigns to a heading.
func anchor(heading string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			out.WriteByte('-')
		case r == '-', r == '_', 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			out.WriteRune(r)
		}
	}
	return out.String()
}
