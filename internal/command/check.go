package command

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"worldevents/config"
	"worldevents/internal/setup"
	"worldevents/models"
	"worldevents/models/inspect"
	"worldevents/server"
	"worldevents/server/certificate"
)

// Check looks at everything that serving needs, and changes nothing.
type Check struct{}

type checked struct {
	OK       bool              `json:"ok"` // there is no fault
	Findings []inspect.Finding `json:"findings"`
	Rows     map[string]int64  `json:"rows,omitempty"` // of each table, as copy counts them
	Settings map[string]string `json:"settings"`       // secrets are masked
}

// add adds a finding. Its text becomes one line, or it would look like several findings.
func (c *checked) add(level inspect.Level, about, text string) {
	c.Findings = append(c.Findings, inspect.Finding{Level: level, About: about, Text: strings.Join(strings.Fields(text), " ")})
}

// Run looks at settings, database, certificate, identity provider and the owner of the worlds. It skips a part whose own settings are wrong, and goes on with the
// others, so that an operator fixes everything at once.
func (Check) Run() error {
	ctx := interruptible()
	c, problems := config.Inspect(true)
	result := checked{Findings: []inspect.Finding{}, Settings: c.Settings()}
	result.settings(c, problems)
	if !strings.Contains(fmt.Sprint(problems), "DATABASE_URL") {
		inspected := inspect.Database(ctx, models.Options{URL: c.DatabaseURL, MaxConns: c.DBMaxConns, Timeout: c.DBTimeout})
		for _, f := range inspected.Findings {
			result.add(f.Level, f.About, f.Text)
		}
		result.Rows = inspected.Rows
	}
	if !strings.Contains(fmt.Sprint(problems), "TLS: ") && c.Base != nil {
		result.certificate(ctx, c)
	}
	if provider := setup.Provider(c); provider != nil && !strings.Contains(fmt.Sprint(problems), "OIDC_") {
		if keys, err := server.CheckProvider(ctx, *provider); err != nil {
			result.add(inspect.Fault, "OIDC_ISSUER", err.Error())
		} else {
			result.add(inspect.Fine, "OIDC_ISSUER", fmt.Sprintf("publishes its endpoints, and keys of which %d can be used", keys))
		}
	}
	if c.WorldAccess != nil && !strings.Contains(fmt.Sprint(problems), "WORLD_ACCESS_") {
		level, text := inspect.Fine, "answers, and keeps out a user that does not exist"
		if allowed, err := server.CheckWorlds(*c.WorldAccess, c.WorldAccessToken); err != nil {
			level, text = inspect.Fault, err.Error()
		} else if allowed {
			level, text = inspect.Warning, "says yes to anybody: a user and a world that do not exist were let in"
		}
		result.add(level, "WORLD_ACCESS_URL", text)
	}
	return result.print()
}

// settings adds faults of the settings, and the warnings of serve.
func (c *checked) settings(settings *config.Config, problems []error) {
	for _, problem := range problems {
		about, text, _ := strings.Cut(problem.Error(), ": ")
		c.add(inspect.Fault, about, text)
	}
	for _, warning := range settings.Warnings {
		c.add(inspect.Warning, "settings", warning)
	}
	var unusable []error
	for _, address := range settings.ListenAddrs {
		if err := canListen(address); err != nil {
			unusable = append(unusable, err)
		} else if host, _, _ := net.SplitHostPort(address); settings.Development && !config.IsLocal(host) {
			c.add(inspect.Warning, "LISTEN_ADDR", setup.OpenListener)
		}
	}
	if len(unusable) == len(settings.ListenAddrs) { // one is enough: not every machine has IPv6
		c.add(inspect.Fault, "LISTEN_ADDR", unusable[0].Error())
	}
	for _, l := range []struct{ name, address string }{{"ADMIN_ADDR", settings.AdminAddr}, {"HTTP_ADDR", settings.HTTPAddr}} {
		if err := canListen(l.address); err != nil {
			c.add(inspect.Fault, l.name, err.Error())
		}
	}
	if len(problems) == 0 {
		c.add(inspect.Fine, "settings", "can be used")
	}
}

// certificate adds what serve would find about the certificate or its authority. An authority that is away is a Warning: serve goes on
// with the certificate that it has, and asks again.
func (c *checked) certificate(ctx context.Context, settings *config.Config) {
	switch settings.TLS {
	case "files":
		files, err := certificate.OpenFiles(settings.TLSDir, settings.Base.Hostname())
		if err != nil {
			c.add(inspect.Fault, "TLS_DIR", err.Error())
			return
		}
		for _, warning := range files.Warnings() {
			c.add(inspect.Warning, "TLS_DIR", warning)
		}
		c.add(inspect.Fine, "TLS_DIR", "has a certificate that expires at "+files.Expiry().UTC().Format(time.RFC3339))
	case "acme":
		if err := certificate.CheckAuthority(ctx, settings.ACMEDirectory); err != nil {
			c.add(inspect.Warning, "ACME_DIRECTORY", "the authority is away: "+err.Error())
		} else {
			c.add(inspect.Fine, "ACME_DIRECTORY", "responds")
		}
	}
}

// canListen returns an error unless this machine has the host of an address. The port may be in use by the running service.
func canListen(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil // it is empty, or config has said so already
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return err
	}
	return l.Close()
}

// print prints the result on stdout, and faults and warnings on stderr as well. It returns an error for faults, so that scripts need no
// parser.
func (c *checked) print() error {
	faults := 0
	for _, f := range c.Findings {
		if f.Level != inspect.Fine {
			fmt.Fprintf(os.Stderr, "%s: %s: %s\n", f.Level, f.About, f.Text)
		}
		if f.Level == inspect.Fault {
			faults++
		}
	}
	c.OK = faults == 0
	if err := printJSON(c); err != nil {
		return err
	}
	if faults > 0 {
		return fmt.Errorf("check: faults: %d", faults)
	}
	return nil
}
