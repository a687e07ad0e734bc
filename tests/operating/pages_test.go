package operating

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"worldevents/tests/servicetest"
)

// Every link of a document to another file, or to a heading, leads somewhere. Readers find every page of docs/ by links that
// begin at README.md, a page of docs/operate is short enough to be read by who is woken, and those of the client have 24 KiB in all.
func TestPagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	client := 0
	headings, links := make(map[string]map[string]bool), make(map[string][]string)
	for _, page := range servicetest.Pages(t) {
		text := regexp.MustCompile("(?ms)^ *```.*?^ *```$").ReplaceAllString(servicetest.Shipped(t, page), "")
		headings[page] = anchors(text)
		text = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(text, "")
		for _, link := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(text, -1) {
			if !strings.Contains(link[1], ":") {
				links[page] = append(links[page], link[1])
			}
		}
		size := len(servicetest.Shipped(t, page))
		servicetest.True(t, !strings.HasPrefix(page, "docs/operate/") || size <= 12_000, "%s is short: %d bytes", page, size)
		if page == "gen/typescript/README.md" || strings.HasPrefix(page, "docs/typescript/") {
			client += size
		}
	}
	servicetest.True(t, client <= 24<<10, "the pages of the client are short: %d bytes", client)
	reached := map[string]bool{"README.md": true}
	for unread := []string{"README.md"}; len(unread) > 0; unread = unread[1:] {
		for _, link := range links[unread[0]] {
			if to, _, _ := strings.Cut(resolve(unread[0], link), "#"); headings[to] != nil && !reached[to] {
				reached[to], unread = true, append(unread, to)
			}
		}
	}
	for page := range headings {
		servicetest.True(t, reached[page] || !strings.HasPrefix(page, "docs/"), "a link leads to %s", page)
		for _, link := range links[page] {
			to, heading, _ := strings.Cut(resolve(page, link), "#")
			servicetest.True(t, servicetest.IsShipped(t, to) && (heading == "" || headings[to][heading]), "%s, to which %s links, is there", link, page)
		}
	}
}

// resolve returns the path from the root, with its heading, of what a page links to.
func resolve(page, link string) string {
	if strings.HasPrefix(link, "#") {
		return page + link
	}
	return path.Join(path.Dir(page), link)
}

// anchors are the names under which GitHub shows the headings of a page.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		name = strings.ReplaceAll(name, " ", "-")
		for n, first := 1, name; all[name]; n++ {
			name = fmt.Sprint(first, "-", n)
		}
		all[name] = true
	}
	return all
}
