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

// command is what a command works with. Instances may serve from the same database.
type command struct {
	context.Context // ends with the first SIGINT or SIGTERM; a call of the store that has begun goes on
	config          *config.Config
	store           *models.Store
}

// commandTimeout is the least time for one call at the database. DB_TIMEOUT is for requests; renaming a user changes all of their RSVPs.
const commandTimeout = 30 * time.Second

// withStore checks the schema of the configured database, and runs fn on it. needKey means that fn needs JWT_SECRET.
func withStore(needKey bool, fn func(*command) error) error {
	return withStoreAfter((*models.Store).CheckSchema, needKey, fn)
}

// withStoreAfter is withStore with another preparation, such as a migration.
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
	store.NoteTo(note)
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

// interruptible returns a context that ends with the first SIGINT or SIGTERM. The process goes on: a signal after the last step must not
// change the status. A second signal ends the process at once.
func interruptible() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

// audit writes the audit line of a change: when, which user of the operating system, which action, about what. It comes after the
// change, so that no line claims what did not happen. No LOG_LEVEL suppresses it.
func (cmd *command) audit(action string, attributes ...any) { audit(cmd.config, action, attributes...) }

// audit is command.audit for a command without a store.
func audit(c *config.Config, action string, attributes ...any) {
	logs.At(c, slog.LevelInfo).Info("audit", slices.Concat([]any{"action", action}, whoAsks(), attributes)...)
	logs.Stderr.Flush() // before stdout is written: if nobody reads that any more, SIGPIPE ends the process
}

// whoAsks returns attributes of the caller. The process's user may be the service's, so it adds, where they are known, the user who
// signed in to the machine (proc_pid_loginuid(5)) and the user of sudo.
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

// osUser is the name of the process's user, or the number if it has no name, as in a container.
func osUser() string {
	id := strconv.Itoa(os.Getuid())
	if u, err := user.LookupId(id); err == nil && u.Username != "" {
		return u.Username
	}
	return id
}

// PrintHelp adds the command's example to its help: the tag "example" in main.go.
func PrintHelp(options kong.HelpOptions, ctx *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, ctx); err != nil {
		return err
	}
	if selected := ctx.Selected(); selected != nil && selected.Tag.Get("example") != "" {
		fmt.Fprintf(ctx.Stdout, "\nExample:\n  %s\n", selected.Tag.Get("example"))
	}
	return nil
}
