package operating

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"worldevents/tests/servicetest"
)

type alert struct {
	Alert, Expr string
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []alert } }
	servicetest.NoError(t, yaml.Unmarshal([]byte(servicetest.Shipped(t, "deploy/alerts.yml")), &file))
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("alerts %v", all)
	}
	return all
}

// Whoever is woken by an alert finds under its name what to do, and each has fired in a test.
func TestAlertsAreExplained(t *testing.T) {
	t.Parallel()
	const explained = "docs/operate/alerts.md"
	page, tests := servicetest.Shipped(t, explained), servicetest.Shipped(t, "tests/long/deploy/alerts.test.yml")
	for _, a := range alerts(t) {
		_, section, _ := strings.Cut(page, "\n## "+a.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n#")
		servicetest.True(t, len(section) > 80, "%s says what to do about %s: %q", explained, a.Alert, section)
		servicetest.True(t, strings.Contains(tests, "alertname: "+a.Alert+", exp_alerts: [{"), "a test has %s fire", a.Alert)
	}
	for _, name := range regexp.MustCompile(`(?m)^## (Worldevents\w+)$`).FindAllStringSubmatch(page, -1) {
		isAlert := slices.ContainsFunc(alerts(t), func(a alert) bool { return a.Alert == name[1] })
		servicetest.True(t, isAlert, "%s, which %s explains, is an alert", name[1], explained)
	}
}

// selector is a metric in an expression, with its labels in braces, which may be missing.
var selector = regexp.MustCompile(`\b((?:worldevents|process|go)_\w+)(?:\{([^}]*)\})?`)

// Every series that an alert asks for is there from the start of a service, on either database but for what only SQLite has.
func TestAlertsAskForWhatIsThere(t *testing.T) {
	servicetest.Each(t, func(t *testing.T, s *servicetest.Service) {
		lines := strings.Split(servicetest.Metrics(t, s), "\n")
		for _, a := range alerts(t) {
			for _, found := range selector.FindAllStringSubmatch(a.Expr, -1) {
				name, labels := found[1], series(found[2])
				if s.Database.Dialect == "postgres" && (strings.HasPrefix(name, "worldevents_sqlite_") || labels[`class="unwritable"`]) {
					continue
				}
				isThere := slices.ContainsFunc(lines, func(line string) bool { return has(line, name, labels) })
				servicetest.True(t, isThere, "%s, which %s asks for, is there", found[0], a.Alert)
			}
		}
	}, func(o *servicetest.Options) { o.CertificateExpiry = time.Now })
}

// series returns the labels of a selector that a series must have letter for letter, without the job, which is Prometheus's own.
func series(labels string) map[string]bool {
	all := make(map[string]bool)
	for _, label := range regexp.MustCompile(`(\w+)(=~?)"([^"]*)"`).FindAllStringSubmatch(labels, -1) {
		if value, _, _ := strings.Cut(label[3], "|"); label[1] != "job" {
			all[fmt.Sprintf("%s=%q", label[1], value)] = true
		}
	}
	return all
}

// has reports whether a line of /metrics is a series of that name with these labels.
func has(line, name string, labels map[string]bool) bool {
	rest, found := strings.CutPrefix(line, name)
	if !found || rest[0] != '{' && rest[0] != ' ' {
		return false
	}
	for label := range labels {
		if !strings.Contains(rest, label) {
			return false
		}
	}
	return true
}
