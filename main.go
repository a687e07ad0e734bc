// Command worldevents serves sessions and scheduled events of social worlds. README.md says how to run it.
package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"worldevents/config"
	"worldevents/models"
	"worldevents/server"
)

//go:embed openapi.yaml
var contract []byte

// commands are what the program does. The example of each stands in its help.
type commands struct {
	Serve   serveCommand   `cmd:"" default:"1" help:"Serve. Migrates the database first." example:"worldevents serve"`
	Migrate migrateCommand `cmd:"" help:"Migrate the database and exit." example:"worldevents migrate"`
	User    struct {
		Add userAddCommand `cmd:"" help:"Add a user and print it as JSON." example:"worldevents user add alice"`
	} `cmd:"" help:"Manage users."`
	Session struct {
		Issue  sessionIssueCommand  `cmd:"" help:"Sign a user in and print the cookies, ready for curl -b. Ends the user's earlier session, or the oldest beyond SESSIONS_PER_USER." example:"worldevents session issue alice"`
		List   sessionListCommand   `cmd:"" help:"Print the sessions of a user that can be refreshed." example:"worldevents session list alice --json"`
		Revoke sessionRevokeCommand `cmd:"" help:"End sessions at once, of a user, one by its id, or everybody's." example:"worldevents session revoke alice"`
	} `cmd:"" help:"Manage sessions."`
	Demo    demoCommand    `cmd:"" help:"Development: fill an empty database with users alice, bob and carol and the world plaza." example:"worldevents demo"`
	Version versionCommand `cmd:"" help:"Print the version and commit of this program, and the versions of Go and the database drivers." example:"worldevents version"`
}

type (
	serveCommand   struct{}
	migrateCommand struct{}
	demoCommand    struct{}
	versionCommand struct{}
)

func main() {
	var cli commands
	parser := kong.Must(&cli, kong.Name("worldevents"), kong.UsageOnError(), kong.Help(printHelp),
		kong.Description("Sessions and scheduled events for social worlds. Configured by environment variables, see README.md."))
	command, err := parser.Parse(os.Args[1:])
	if slices.ContainsFunc(os.Args, func(arg string) bool { return !utf8.ValidString(arg) }) {
		err = errors.New("arguments must be UTF-8") // the parser would replace what is not
	}
	if err == nil {
		err = command.Run()
	}
	if err != nil {
		oneLine := strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")
		fmt.Fprintln(os.Stderr, "worldevents:", oneLine.Replace(err.Error()))
		os.Exit(1)
	}
}

// openStore opens the configured database, whose calls take so long at most.
func openStore(c *config.Config, timeout time.Duration) (*models.Store, error) {
	store, err := models.Open(models.Options{URL: c.DatabaseURL, MaxConns: c.DBMaxConns, Timeout: timeout, Sessions: models.SessionPolicy{
		TTL: c.RefreshTokenTTL, MaxAge: c.SessionMaxAge, ReuseLeeway: c.RefreshReuseLeeway, PerUser: c.SessionsPerUser,
	}})
	if err != nil {
		return nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	return store, nil
}

// newServer copies the configuration into a server's options.
func newServer(c *config.Config, store *models.Store, log, accessLog *slog.Logger) (*server.Server, error) {
	var provider *server.OIDC
	if c.OIDCIssuer != "" {
		provider = &server.OIDC{
			Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: c.OIDCClientSecret,
			Scopes: strings.Fields(c.OIDCScopes), UsernameClaim: c.OIDCUsernameClaim,
		}
	}
	return server.New(server.Options{
		Contract: contract, Store: store, Log: log, AccessLog: accessLog,
		Development: c.Development, BaseURL: c.Base, Docs: c.Docs,
		Keys: c.Keys, Issuer: c.JWTIssuer, Audience: c.JWTAudience,
		CookieDomain: c.CookieDomain, CookiePartitioned: c.CookiePartitioned,
		OIDC: provider, ReturnOrigins: c.ReturnOrigins,
		AllowedOrigins: c.AllowedOrigins, TrustedProxies: c.Proxies,
		RateLimit: c.RateLimit, WriteRate: c.WriteRate, MaxInFlight: c.MaxInFlight,
	})
}

// Run migrates.
func (migrateCommand) Run() error { return operate(false, func(*operation) error { return nil }) }

// Run fills an empty database.
func (demoCommand) Run() error {
	return operate(false, func(o *operation) error {
		if !o.config.Development {
			return errors.New("demo: only with APP_ENV=development")
		}
		filled, err := o.store.Demo(o)
		if err == nil && filled {
			o.audit("demo", "world", "plaza")
		}
		return err
	})
}

// Run prints versions.
func (versionCommand) Run() error {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("no build information")
	}
	fmt.Println("worldevents", strings.Trim(info.Main.Version, "()")) // (devel) without version control
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		if settings["vcs.modified"] == "true" {
			commit += " and changes"
		}
		fmt.Println("commit", commit, settings["vcs.time"])
	}
	fmt.Println("go", strings.TrimPrefix(runtime.Version(), "go"))
	for _, dep := range info.Deps {
		switch dep.Path {
		case "github.com/jackc/pgx/v5", "modernc.org/sqlite", "gorm.io/gorm":
			fmt.Println(dep.Path, dep.Version)
		}
	}
	return nil
}

func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
