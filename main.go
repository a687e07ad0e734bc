// Command worldevents serves sessions and scheduled events of social worlds. README.md says how to run it.
package main

import (
	"context"
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
	"unicode/utf8"

	"github.com/alecthomas/kong"

	"worldevents/config"
	"worldevents/models"
	"worldevents/server"
)

//go:embed openapi.yaml
var contract []byte

type commands struct {
	Serve   serveCommand   `cmd:"" default:"1" help:"Serve. Migrates the database first."`
	Migrate migrateCommand `cmd:"" help:"Migrate the database and exit."`
	User    struct {
		Add userAddCommand `cmd:"" help:"Add a user and print it as JSON."`
	} `cmd:"" help:"Manage users."`
	Session struct {
		Issue  sessionIssueCommand  `cmd:"" help:"Sign a user in and print the cookies, ready for curl -b. Ends the user's earlier session, or the oldest beyond SESSIONS_PER_USER."`
		List   sessionListCommand   `cmd:"" help:"Print the sessions of a user that can be refreshed."`
		Revoke sessionRevokeCommand `cmd:"" help:"End sessions at once, of a user, one by its id, or everybody's."`
	} `cmd:"" help:"Manage sessions."`
	Copy    copyCommand    `cmd:"" help:"Copy the database into a new file or an empty database: a backup, a restore, a move. All or nothing."`
	Demo    demoCommand    `cmd:"" help:"Development: fill an empty database with users alice, bob and carol and the world plaza."`
	Version versionCommand `cmd:"" help:"Print the version and commit of this program, and the versions of Go and the database drivers."`
}

type (
	serveCommand   struct{}
	migrateCommand struct{}
	userAddCommand struct {
		Name string `arg:"" help:"1 to 100 characters, unique exactly as written."`
	}
	sessionIssueCommand struct {
		Name string `arg:"" help:"The username. In development a new one makes a new user."`
		JSON bool   `help:"Print JSON."`
	}
	sessionListCommand struct {
		Name string `arg:"" help:"The username."`
		JSON bool   `help:"Print JSON."`
	}
	sessionRevokeCommand struct {
		Name string `arg:"" optional:"" help:"The username: all sessions of the user."`
		ID   string `help:"The session with this id." placeholder:"ID"`
		All  bool   `help:"All sessions of everybody, as after restoring a backup."`
		JSON bool   `help:"Print JSON."`
	}
	copyCommand struct {
		To string `required:"" placeholder:"URL" help:"sqlite:FILE, which must not exist, or postgres://…, which must be empty. Example: worldevents copy --to sqlite:backup.db"`
	}
	demoCommand    struct{}
	versionCommand struct{}
)

func main() {
	var cli commands
	parser := kong.Must(&cli, kong.Name("worldevents"), kong.UsageOnError(),
		kong.Description("Sessions and scheduled events for social worlds. Configured by environment variables, see README.md."))
	command, err := parser.Parse(os.Args[1:])
	if slices.ContainsFunc(os.Args, func(arg string) bool { return !utf8.ValidString(arg) }) {
		err = errors.New("arguments must be UTF-8") // the parser would replace what is not
	}
	if err != nil {
		err = errors.New(withoutURLs(err.Error(), os.Args))
	} else {
		err = command.Run()
	}
	if err != nil {
		oneLine := strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")
		fmt.Fprintln(stderr, "worldevents:", oneLine.Replace(err.Error()))
	}
	stderr.flush()
	if err != nil {
		os.Exit(1)
	}
}

// withoutURLs is what the parser says of arguments, without those that may have a password in them.
func withoutURLs(text string, args []string) string {
	for _, arg := range args {
		if strings.Contains(arg, "://") {
			text = strings.ReplaceAll(text, arg, "URL")
		}
	}
	return text
}

// open reads the configuration and opens the store.
func open(needKey bool) (*config.Config, *models.Store, error) {
	c, err := config.Load(needKey)
	if err != nil {
		return nil, nil, err
	}
	store, err := models.Open(models.Options{URL: c.DatabaseURL, MaxConns: c.DBMaxConns, Timeout: c.DBTimeout, Sessions: models.SessionPolicy{
		TTL: c.RefreshTokenTTL, MaxAge: c.SessionMaxAge, ReuseLeeway: c.RefreshReuseLeeway, PerUser: c.SessionsPerUser,
	}})
	if err != nil {
		return nil, nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	return c, store, nil
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
		Contract: contract, Store: store, Log: log, AccessLog: accessLog, LogLinesDropped: stderr.Dropped,
		Development: c.Development, BaseURL: c.Base, Docs: c.Docs,
		Keys: c.Keys, Issuer: c.JWTIssuer, Audience: c.JWTAudience,
		CookieDomain: c.CookieDomain, CookiePartitioned: c.CookiePartitioned,
		OIDC: provider, ReturnOrigins: c.ReturnOrigins,
		AllowedOrigins: c.AllowedOrigins, TrustedProxies: c.Proxies,
		RateLimit: c.RateLimit, WriteRate: c.WriteRate, MaxInFlight: c.MaxInFlight, MaxWaiting: c.MaxWaiting,
	})
}

// openCurrent opens a store that is up to date, for commands that use it once.
func openCurrent(needKey bool) (*config.Config, *models.Store, error) {
	c, store, err := open(needKey)
	if err != nil {
		return nil, nil, err
	}
	return c, store, store.CheckSchema(context.Background())
}

// openMigrated opens the store and brings it up to date.
func openMigrated(needKey bool) (*config.Config, *models.Store, error) {
	c, store, err := open(needKey)
	if err != nil {
		return nil, nil, err
	}
	return c, store, store.Migrate(context.Background())
}

// Run migrates.
func (migrateCommand) Run() error {
	_, store, err := openMigrated(false)
	if err != nil {
		return err
	}
	return store.Close()
}

// Run adds a user.
func (a userAddCommand) Run() error {
	_, store, err := openCurrent(false)
	if err != nil {
		return err
	}
	defer store.Close()
	user, err := store.AddUser(context.Background(), a.Name)
	if err != nil {
		return err
	}
	return printJSON(struct {
		ID       models.ID `json:"id"`
		Username string    `json:"username"`
	}(user))
}

// Run fills an empty database.
func (demoCommand) Run() error {
	c, store, err := openMigrated(false)
	if err != nil {
		return err
	}
	defer store.Close()
	if !c.Development {
		return errors.New("demo: only with APP_ENV=development")
	}
	return store.Demo(context.Background())
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
