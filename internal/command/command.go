package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"worldevents/config"
	"worldevents/internal/logs"
	"worldevents/internal/setup"
	"worldevents/models"
)

// command is what a command works with that reads or changes the database, perhaps beside serving instances.
type command struct {
	context.Context // ends with the first SIGINT or SIGTERM; a call of store that has begun goes on
	config          *config.Config
	store           *models.Store
}

// commandTimeout is the least time that the database has for one call of a command. DB_TIMEOUT is for requests: renaming
// somebody with many RSVPs may take longer.
const commandTimeout = 30 * time.Second

// withStore runs fn on the configured database, whose schema must be there. What fn prints on stdout is the result, JSON; words
// go to stderr. The process ends with status 1 and one line if fn returns an error.
func withStore(needKey bool, fn func(*command) error) error {
	return withStoreAfter((*models.Store).CheckSchema, needKey, fn)
}

// withStoreAfter is withStore once prepare has seen to the schema.
func withStoreAfter(prepare func(*models.Store, context.Context) error, needKey bool, fn func(*command) error) error {
	c, err := config.Load(needKey)
	if err != nil {
		return err
	}
	store, err := setup.Store(c, max(c.DBTimeout, commandTimeout))
	if err != nil {
		return err
	}
	defer store.Close()
	ctx := interruptible()
	if err := prepare(store, ctx); err != nil {
		return err
	}
	err = fn(&command{ctx, c, store})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return errors.New("interrupted")
	}
	return err
}

// interruptible returns a context that ends with the first SIGINT or SIGTERM. A second signal ends the process at once. The
// first never does: when it comes after all is done, the status must still say so.
func interruptible() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// audit writes the one line that a change leaves: when, which user of the operating system, what, and whom or what it
// was about. It is written whatever LOG_LEVEL says, after the change.
func (cmd *command) audit(action string, attributes ...any) { audit(cmd.config, action, attributes...) }

func audit(c *config.Config, action string, attributes ...any) {
	always := *c
	always.LogLevel = slog.LevelInfo
	log, _ := logs.New(&always)
	log.Info("audit", slices.Concat([]any{"action", action}, whoAsks(), attributes)...)
	logs.Stderr.Flush() // a reader of stdout who has gone away ends the process at the next line there
}

// whoAsks says who runs the command: the process's user, which is the service's for all who use its account, and where they are known
// the user who signed in to the machine (loginuid, proc_pid_loginuid(5)) and the one who called sudo.
func whoAsks() []any {
	who := []any{"os_user", osUser()}
	text, err := os.ReadFile("/proc/self/loginuid")
	if id, errNumber := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 32); err == nil && errNumber == nil && id != math.MaxUint32 {
		who = append(who, "login_uid", id)
	}
	if name := os.Getenv("SUDO_USER"); name != "" {
		who = append(who, "sudo_user", name)
	}
	return who
}

// osUser is the name of the process's user, or the number where it has no name, as in a container.
func osUser() string {
	id := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		return u.Username
	}
	return id
}

// PrintHelp adds the command's example, the tag of that name in main.go.
func PrintHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if selected := ctx.Selected(); selected != nil && selected.Tag.Get("example") != "" {
		fmt.Fprintf(ctx.Stdout, "\nExample:\n  %s\n", selected.Tag.Get("example"))
	}
	return nil
}
