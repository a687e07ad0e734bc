// Command worldevents serves sessions and scheduled events of social worlds. README.md says how to run it.
package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
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
		Issue sessionIssueCommand `cmd:"" help:"Sign a user in and print the cookies, ready for curl -b. Ends the user's earlier session."`
	} `cmd:"" help:"Manage sessions."`
	Demo    demoCommand    `cmd:"" help:"Development: fill an empty database with users alice, bob and carol and the world plaza."`
	Version versionCommand `cmd:"" help:"Print the versions of this program, Go and the database drivers."`
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
	if err == nil {
		err = command.Run()
	}
	if err != nil {
		oneLine := strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")
		fmt.Fprintln(os.Stderr, "worldevents:", oneLine.Replace(err.Error()))
		os.Exit(1)
	}
}

// open reads the configuration and opens the store.
func open(needKey bool) (*config.Config, *models.Store, error) {
	c, err := config.Load(needKey)
	if err != nil {
		return nil, nil, err
	}
	store, err := models.Open(models.Options{URL: c.DatabaseURL, MaxConns: c.DBMaxConns, Timeout: c.DBTimeout})
	if err != nil {
		return nil, nil, fmt.Errorf("DATABASE_URL: %w", err)
	}
	return c, store, nil
}

// newServer copies the configuration into a server's options.
func newServer(c *config.Config, store *models.Store, log *slog.Logger) (*server.Server, error) {
	var provider *server.OIDC
	if c.OIDCIssuer != "" {
		provider = &server.OIDC{
			Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: c.OIDCClientSecret,
			Scopes: strings.Fields(c.OIDCScopes), UsernameClaim: c.OIDCUsernameClaim,
		}
	}
	return server.New(server.Options{
		Contract: contract, Store: store, Log: log,
		Development: c.Development, BaseURL: c.Base, Docs: c.Docs,
		Keys: c.Keys, Issuer: c.JWTIssuer, Audience: c.JWTAudience,
		RefreshTTL: c.RefreshTokenTTL, ReuseLeeway: c.RefreshReuseLeeway,
		CookieDomain: c.CookieDomain, CookiePartitioned: c.CookiePartitioned,
		OIDC: provider, ReturnOrigins: c.ReturnOrigins,
		AllowedOrigins: c.AllowedOrigins, TrustedProxies: c.Proxies,
		RateLimit: c.RateLimit, MaxInFlight: c.MaxInFlight,
	})
}

// ballast is never touched, so it takes no memory, but the collector counts it as alive, in bytes: little of what this
// process holds is, so that it would collect dozens of times a second. Where much is alive, it matters little.
const ballast = 16 << 20

// drainShare is the part of the shutdown timeout, one in so many, for which requests are still taken after SIGTERM
// while readiness says 503: a proxy goes on sending until it has noticed.
const drainShare = 5

// Run serves until a signal, then answers what is in flight.
func (serveCommand) Run() error {
	c, store, err := open(true)
	if err != nil {
		return err
	}
	defer store.Close()
	log, flush := newLog(c, os.Stderr)
	defer flush()
	srv, err := newServer(c, store, log)
	if err != nil {
		return err
	}
	warn(c, log)
	defer runtime.KeepAlive(make([]byte, ballast))

	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	failed := make(chan error, 3)
	public := &http.Server{
		Handler:           srv.Public,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    12 << 10, // net/http adds 4 KiB
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	admin := &http.Server{Handler: srv.Admin, ReadHeaderTimeout: 5 * time.Second}
	if err := listen(public, c.ListenAddr, failed); err != nil {
		return fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	if c.AdminAddr != "" {
		if err := listen(admin, c.AdminAddr, failed); err != nil {
			return fmt.Errorf("ADMIN_ADDR: %w", err)
		}
		defer admin.Close()
	}
	log.Info("serving", "address", c.ListenAddr, "base_url", c.BaseURL, "environment", c.AppEnv)
	go func() {
		switch err := migrateWhenAvailable(ctx, store, log); {
		case err == nil:
			srv.Ready()
			log.Info("ready")
		case ctx.Err() == nil:
			failed <- err
		}
	}()

	var got os.Signal
	select {
	case err := <-failed:
		return err
	case got = <-signals:
	}
	signal.Reset() // a second signal ends the process at once
	stop()
	srv.Drain()
	log.Info("stopping")
	deadline, cancel := context.WithTimeout(context.Background(), c.ShutdownTimeout)
	defer cancel()
	if got == syscall.SIGTERM { // from a supervisor; a person at a terminal waits for nobody
		time.Sleep(c.ShutdownTimeout / drainShare)
	}
	if err := public.Shutdown(deadline); err != nil {
		log.Warn("requests were still in flight at SHUTDOWN_TIMEOUT")
		public.Close()
	}
	return nil
}

// listen begins to serve on addr. What ends the server unasked goes to failed.
func listen(s *http.Server, addr string, failed chan<- error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	go func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			failed <- err
		}
	}()
	return nil
}

// migrateWhenAvailable waits for a database that is away. It gives up on an error that waiting cannot mend,
// and when the process is to stop.
func migrateWhenAvailable(ctx context.Context, store *models.Store, log *slog.Logger) error {
	for {
		err := store.Migrate(ctx)
		switch {
		case err == nil, ctx.Err() != nil:
			return err
		case !errors.Is(err, models.ErrUnavailable) && !errors.Is(err, models.ErrTimeout) && !errors.Is(err, models.ErrBusy):
			return err
		}
		log.Warn("waiting for the database", "error", err.Error())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// warn says what is allowed but rarely meant.
func warn(c *config.Config, log *slog.Logger) {
	if c.Development {
		return
	}
	if c.Base.Scheme == "http" {
		log.Warn("BASE_URL is plain http: browsers keep Secure cookies from it, except on localhost")
	}
	if !c.DatabaseSet {
		log.Warn("DATABASE_URL is not set: keeping data in worldevents.db in the working directory")
	}
}

// migrated opens the store and brings it up to date, for commands that use it once.
func migrated(needKey bool) (*config.Config, *models.Store, error) {
	c, store, err := open(needKey)
	if err != nil {
		return nil, nil, err
	}
	return c, store, store.Migrate(context.Background())
}

// Run migrates.
func (migrateCommand) Run() error {
	_, store, err := migrated(false)
	if err != nil {
		return err
	}
	return store.Close()
}

// Run adds a user.
func (a userAddCommand) Run() error {
	_, store, err := migrated(false)
	if err != nil {
		return err
	}
	defer store.Close()
	user, err := store.AddUser(context.Background(), a.Name)
	if err != nil {
		return err
	}
	return printJSON(struct {
		ID       string `json:"id"`
		Username string `json:"username"`
	}(user))
}

// Run signs a user in. In production the user must exist.
func (i sessionIssueCommand) Run() error {
	c, store, err := migrated(true)
	if err != nil {
		return err
	}
	defer store.Close()
	log, flush := newLog(c, os.Stderr)
	defer flush()
	srv, err := newServer(c, store, log)
	if err != nil {
		return err
	}
	session, err := srv.SignIn(context.Background(), i.Name, c.Development)
	if err != nil {
		return err
	}
	if i.JSON {
		return printJSON(session)
	}
	fmt.Printf("token=%s; refreshToken=%s\n", session.Token, session.RefreshToken)
	return nil
}

// Run fills an empty database.
func (demoCommand) Run() error {
	c, store, err := migrated(false)
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
	fmt.Println("worldevents", info.Main.Version)
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
