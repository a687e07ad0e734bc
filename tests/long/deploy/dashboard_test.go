package deploy

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"worldevents/tests/servicetest"
)

// panelQueries returns the queries of the dashboard by panel, as Grafana would ask them while it shows all instances.
func panelQueries(t *testing.T) map[string][]string {
	t.Helper()
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	servicetest.NoError(t, json.Unmarshal([]byte(servicetest.Shipped(t, "deploy/grafana.json")), &dashboard))
	queries := make(map[string][]string)
	for _, panel := range dashboard.Panels {
		if len(panel.Targets) == 0 || queries[panel.Title] != nil {
			t.Fatalf("panel %q has no query, or the name of another", panel.Title)
		}
		for _, target := range panel.Targets {
			queries[panel.Title] = append(queries[panel.Title], strings.NewReplacer("$__rate_interval", "10s", "$instance", ".*").Replace(target.Expr))
		}
	}
	if len(queries) < 20 {
		t.Fatalf("panels %v", queries)
	}
	return queries
}

// prometheus scrapes the instances every second, as one job, and returns its address.
func prometheus(t *testing.T, instances ...*servicetest.Program) (address string) {
	t.Helper()
	program, dir := servicetest.Tool(t, "prometheus"), t.TempDir()
	address = servicetest.FreeAddress(t)
	var targets []string
	for _, p := range instances {
		targets = append(targets, strconv.Quote(p.Getenv("ADMIN_ADDR")))
	}
	config := filepath.Join(dir, "prometheus.yml")
	write(t, config, fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs: [{job_name: worldevents, static_configs: [{targets: [%s]}]}]\n", strings.Join(targets, ", ")))
	servicetest.Background(t, exec.Command(program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address))
	servicetest.Within(t, time.Minute, "Prometheus scrapes", func() bool {
		n, err := values(address, "up == 1")
		return err == nil && n == len(instances)
	})
	return address
}

// values asks Prometheus a query, and returns how many series have a number now.
func values(address, query string) (numbers int, err error) {
	res := servicetest.NewBrowser("http://"+address, http.DefaultTransport).Do("GET", "/api/v1/query?query="+url.QueryEscape(query), "")
	var answer struct {
		Error string
		Data  struct{ Result []struct{ Value []any } }
	}
	if json.Unmarshal([]byte(res.Body), &answer) != nil || answer.Error != "" {
		return 0, fmt.Errorf("%v", res)
	}
	for _, series := range answer.Data.Result {
		if n, err := strconv.ParseFloat(fmt.Sprint(series.Value[1]), 64); err == nil && !math.IsNaN(n) {
			numbers++
		}
	}
	return numbers, nil
}

// Every query of every panel has values while an instance on each database is used, and each alert that a panel names is explained.
func TestDashboardShowsValues(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	var load sync.WaitGroup
	t.Cleanup(func() { // before the processes end
		close(stop)
		load.Wait()
	})
	instances := []*servicetest.Program{servicetest.NewProgram(t), servicetest.NewProgram(t, "DATABASE_URL="+servicetest.Postgres(t).URL)}
	for _, p := range instances {
		browser := servicetest.NewBrowser(p.ServeReady().URL, &http.Transport{})
		browser.SignIn("alice").Is(t, 303)
		work := func(fn func()) {
			load.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(50 * time.Millisecond):
						fn()
					}
				}
			})
		}
		id := browser.Do("POST", servicetest.Plaza, servicetest.EventBody).Header.Get("Event-Id")
		reader, member := browser.Clone(), browser.Clone()
		member.SignIn("carol")
		work(func() {
			browser.SignIn("bob")
			browser.Do("GET", servicetest.RefreshPath, "")
			browser.Do("GET", servicetest.Plaza, "", servicetest.Header("Cookie", "token=none"))
		})
		work(func() {
			member.Do("POST", "/api/event/join/"+id, "")
			member.Do("DELETE", "/api/event/"+id, "")
		})
		work(func() {
			tag := reader.Do("GET", servicetest.Plaza, "").Header.Get("ETag")
			reader.Do("GET", servicetest.Plaza+"?wait=1", "", servicetest.Header("If-None-Match", tag))
		})
	}
	address := prometheus(t, instances...)
	for panel, queries := range panelQueries(t) {
		for _, query := range queries {
			servicetest.Within(t, time.Minute, panel+" shows a value of "+query, func() bool {
				n, err := values(address, query)
				if err != nil {
					t.Fatalf("%s: %s: %v", panel, query, err)
				}
				return n > 0
			})
		}
	}
	alerts, page := servicetest.Shipped(t, "deploy/alerts.yml"), servicetest.Shipped(t, "deploy/grafana.json")
	for _, name := range regexp.MustCompile(`\bWorldevents\w+`).FindAllString(page, -1) {
		servicetest.Contains(t, alerts, "alert: "+name+"\n") // which a panel names
	}
}
