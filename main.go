// Command worldevents serves sessions and scheduled events of social worlds. README.md says how to run it.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	_ "golang.org/x/crypto/x509roots/fallback" // authorities for where the system has none, as in a container

	"worldevents/config"
	"worldevents/config/build"
	"worldevents/models"
	"worldevents/server"
)

//go:embed openapi.yaml
var openapi []byte

// commands are what the program does. The example of each stands in its help.
type commands struct {
	Serve   serveCommand   `cmd:"" default:"1" help:"Serve. Migrates the database first." example:"worldevents serve"`
	Migrate migrateCommand `cmd:"" help:"Migrate the database and exit." example:"worldevents migrate"`
	User    struct {
		Add     userAddCommand     `cmd:"" help:"Add a user and print it as JSON." example:"worldevents user add alice"`
		List    userListCommand    `cmd:"" help:"Print all users as a JSON array, one to a line, in the order in which they came." example:"worldevents user list"`
		Show    userShowCommand    `cmd:"" help:"Print all that is kept about a user as JSON: who they are, sessions, events created, RSVPs." example:"worldevents user show alice"`
		Rename  userRenameCommand  `cmd:"" help:"Rename a user, in all lists at once." example:"worldevents user rename alice alicia"`
		Block   userBlockCommand   `cmd:"" help:"Keep a user from signing in, and end their sessions at once." example:"worldevents user block alice"`
		Unblock userUnblockCommand `cmd:"" help:"Let a user sign in again." example:"worldevents user unblock alice"`
		Remove  userRemoveCommand  `cmd:"" help:"Delete a user with sessions and RSVPs. Events that they created stay, without a creator, unless --events is given." example:"worldevents user remove alice"`
	} `cmd:"" help:"Manage users."`
	Session struct {
		Issue  sessionIssueCommand  `cmd:"" help:"Sign a user in and print the cookies, ready for curl -b. Ends the user's earlier session, or the oldest beyond SESSIONS_PER_USER." example:"worldevents session issue alice"`
		List   sessionListCommand   `cmd:"" help:"Print the sessions of a user that can be refreshed." example:"worldevents session list alice --json"`
		Revoke sessionRevokeCommand `cmd:"" help:"End sessions at once, of a user, one by its id, or everybody's." example:"worldevents session revoke alice"`
	} `cmd:"" help:"Manage sessions."`
	Event struct {
		List   eventListCommand   `cmd:"" help:"Print the events of a world, or those that a user has created, as a JSON array, one to a line." example:"worldevents event list --world plaza"`
		Show   eventShowCommand   `cmd:"" help:"Print an event with its RSVPs as JSON." example:"worldevents event show 01980000-0000-7000-8000-000000000001"`
		Edit   eventEditCommand   `cmd:"" help:"Change an event." example:"worldevents event edit 01980000-0000-7000-8000-000000000001 --name 'Rooftop concert, moved' --scheduled-at 2030-01-02T19:00:00+01:00"`
		Remove eventRemoveCommand `cmd:"" help:"Delete an event with its RSVPs, or those that a user has created, in small batches." example:"worldevents event remove 01980000-0000-7000-8000-000000000001"`
		Prune  eventPruneCommand  `cmd:"" help:"Delete the events that were scheduled before a time, with their RSVPs, in small batches." example:"worldevents event prune --before 2020-01-01T00:00:00Z --dry-run"`
	} `cmd:"" help:"Moderate events, and delete old ones."`
	World struct {
		List worldListCommand `cmd:"" help:"Print the worlds that have events as a JSON array, one to a line, with how many and when the last was created." example:"worldevents world list"`
	} `cmd:"" help:"Look at worlds."`
	Check       checkCommand   `cmd:"" help:"Look at settings, database, disk, rights and identity provider before serving, and change nothing. Exits with status 1 on a fault." example:"worldevents check"`
	Health      healthCommand  `cmd:"" help:"Ask the instance with these settings whether it is ready, at ADMIN_ADDR. Exits with status 1 if it is not." example:"worldevents health --live"`
	Copy        copyCommand    `cmd:"" help:"Copy the database into a new file or an empty database: a backup, a restore, a move. All or nothing." example:"worldevents copy --to sqlite:backup.db"`
	Replay      replayCommand  `cmd:"" name:"replay-audit" help:"After a restore: block, rename and remove again whom and what the lines of commands in a log say." example:"worldevents replay-audit audit.log"`
	Demo        demoCommand    `cmd:"" help:"Development: fill an empty database with users alice, bob and carol and the world plaza." example:"worldevents demo"`
	ShowVersion versionFlag    `name:"version" help:"Print what the command version does."`
	Version     versionCommand `cmd:"" help:"Print the version and commit of this program, and the versions of Go and the database drivers." example:"worldevents version"`
}

type (
	serveCommand   struct{}
	migrateCommand struct{}
	demoCommand    struct{}
	versionCommand struct{}
)

// hangups has the signals that ask serve to reload. Before main listens to them one would end the process.
var hangups = make(chan os.Signal, 1)

func main() {
	signal.Notify(hangups, syscall.SIGHUP)
	var cli commands
	parser := kong.Must(&cli, kong.Name("worldevents"), kong.UsageOnError(), kong.Help(printHelp),
		kong.Description("Sessions and scheduled events for social worlds. Configured by environment variables, see README.md."))
	command, err := parser.Parse(os.Args[1:])
	if slices.ContainsFunc(os.Args, func(arg string) bool { return !utf8.ValidString(arg) }) {
		err = errors.New("arguments must be UTF-8") // the parser would replace what is not
	}
	if err != nil {
		err = errors.New(withoutURLs(err.Error(), os.Args))
	} else {
		if command.Command() != "serve" {
			signal.Reset(syscall.SIGHUP) // a terminal that closes ends the others
		}
		err = command.Run()
	}
	if err != nil {
		reportFailure(command, err)
	}
	stderr.flush()
	if err != nil {
		os.Exit(1)
	}
}

// reportFailure writes the error that ends the process, in one line: for a person, but in the format of the log for a command
// that supervisors run, whose lines programs read. command is nil if the arguments name none.
func reportFailure(command *kong.Context, err error) {
	if command == nil || command.Command() != "serve" && command.Command() != "migrate" {
		fmt.Fprintln(stderr, "worldevents:", oneLine(err))
		return
	}
	c, _ := config.Inspect(false) // the format stands, whatever is wrong with other settings
	log, _ := newLogs(c)
	log.Error("failed", "command", command.Command(), "error", oneLine(err))
}

// oneLine is an error, which may be several joined, in one line.
func oneLine(err error) string {
	return strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ").Replace(err.Error())
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

// openStore opens the configured database, whose calls take so long at most.
func openStore(c *config.Config, timeout time.Duration) (*models.Store, error) {
	store, err := models.Open(models.Options{URL: c.DatabaseURL, MaxConns: c.DBMaxConns, Timeout: timeout, Sessions: models.SessionPolicy{
		TTL: c.RefreshTokenTTL, MaxAge: c.SessionMaxAge, ReuseLeeway: c.RefreshReuseLeeway, PerUser: c.SessionsPerUser,
	}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Source("DATABASE_URL"), err)
	}
	return store, nil
}

// serverOptions copies the configuration into a server's options.
func serverOptions(c *config.Config, store *models.Store, log, accessLog *slog.Logger) (server.Options, error) {
	contract, err := server.ReadContract(openapi)
	return server.Options{
		Contract: contract, Store: store, Log: log, AccessLog: accessLog, LogEvery: c.LogEvery, LogLinesDropped: stderr.Dropped,
		Development: c.Development, BaseURL: c.Base, Docs: c.Docs, SecurityContacts: c.SecurityContacts,
		Keys: c.Keys, Issuer: c.JWTIssuer, Audience: c.JWTAudience, JWTTTL: c.JWTTTL,
		CookieDomain: c.CookieDomain, CookiePartitioned: c.CookiePartitioned,
		OIDC: newProvider(c), ReturnOrigins: c.ReturnOrigins,
		AdminHosts: append(c.AdminHosts, hostOf(c.AdminAddr)),
		HSTS:       c.HSTS, AllowedOrigins: c.AllowedOrigins, TrustedProxies: c.Proxies,
		RateLimit: c.RateLimit, WriteRate: c.WriteRate, MaxInFlight: c.MaxInFlight, MaxWaiting: c.MaxWaiting, ListCache: c.ListCache << 20,
	}, err
}

// hostOf returns the host of an address that Load has accepted, "" for none.
func hostOf(address string) string {
	host, _, _ := net.SplitHostPort(address)
	return host
}

// newProvider is the identity provider of the configuration, or nil.
func newProvider(c *config.Config) *server.OIDC {
	if c.OIDCIssuer == "" {
		return nil
	}
	return &server.OIDC{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: c.OIDCClientSecret,
		Scopes: strings.Fields(c.OIDCScopes), UsernameClaim: c.OIDCUsernameClaim,
	}
}

// Run migrates.
func (migrateCommand) Run() error {
	return operateAfter((*models.Store).Migrate, false, func(*operation) error { return nil })
}

// Run fills an empty database.
func (demoCommand) Run() error {
	return operateAfter((*models.Store).Migrate, false, func(o *operation) error {
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

// versionFlag is --version, which says what the command version does.
type versionFlag bool

// BeforeReset is called when the flag is there, before anything else of the command line counts.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	err := versionCommand{}.Run()
	app.Exit(0)
	return err
}

// Run prints versions.
func (versionCommand) Run() error {
	this := build.Read()
	fmt.Println("worldevents", this.Version)
	fmt.Println(strings.TrimSpace("commit " + this.Commit + " " + this.Time))
	fmt.Println("go", this.Go)
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			switch dep.Path {
			case "github.com/jackc/pgx/v5", "modernc.org/sqlite", "gorm.io/gorm":
				fmt.Println(dep.Path, dep.Version)
			}
		}
	}
	return nil
}

func printJSON(v any) error {
	text, err := encode(v)
	if err == nil {
		_, err = os.Stdout.Write(append(text, '\n'))
	}
	return err
}

// printArray prints all that list calls print with as one JSON array, an element to a line.
func printArray(list func(print func(any) error) error) error {
	out := bufio.NewWriter(os.Stdout)
	before, after := "[\n", "[]\n"
	err := list(func(v any) error {
		text, err := encode(v)
		if err == nil {
			out.WriteString(before)
			_, err = out.Write(text)
		}
		before, after = ",\n", "\n]\n"
		return err
	})
	if err != nil {
		return err
	}
	out.WriteString(after)
	return out.Flush()
}

// encode is json.Marshal without the escapes that only HTML needs.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
