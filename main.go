// Command worldevents serves sessions and scheduled events of social worlds. README.md says how to run it.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/alecthomas/kong"
	_ "golang.org/x/crypto/x509roots/fallback" // authorities for where the system has none, as in a container

	"worldevents/config"
	"worldevents/internal/command"
	"worldevents/internal/logs"
	"worldevents/internal/serve"
	"worldevents/internal/setup"
)

//go:embed openapi.yaml
var openapi []byte

// program is what the program does. The example of each command stands in its help.
type program struct {
	Serve   serve.Command   `cmd:"" default:"1" help:"Serve. Migrates the database first." example:"worldevents serve"`
	Migrate command.Migrate `cmd:"" help:"Migrate the database and exit." example:"worldevents migrate"`
	User    struct {
		Add     command.UserAdd     `cmd:"" help:"Add a user and print it as JSON." example:"worldevents user add alice"`
		List    command.UserList    `cmd:"" help:"Print all users as a JSON array, one to a line, in the order in which they came." example:"worldevents user list"`
		Show    command.UserShow    `cmd:"" help:"Print all that is kept about a user as JSON: who they are, sessions, events created, RSVPs." example:"worldevents user show alice"`
		Rename  command.UserRename  `cmd:"" help:"Rename a user, in all lists at once." example:"worldevents user rename alice alicia"`
		Block   command.UserBlock   `cmd:"" help:"Keep a user from signing in, and end their sessions at once." example:"worldevents user block alice"`
		Unblock command.UserUnblock `cmd:"" help:"Let a user sign in again." example:"worldevents user unblock alice"`
		Remove  command.UserRemove  `cmd:"" help:"Delete a user with sessions and RSVPs. Events that they created stay, without a creator, unless --events is given." example:"worldevents user remove alice"`
	} `cmd:"" help:"Manage users."`
	Session struct {
		Issue  command.SessionIssue  `cmd:"" help:"Sign a user in and print the cookies, ready for curl -b. Ends the user's earlier session, or the oldest beyond SESSIONS_PER_USER." example:"worldevents session issue alice"`
		List   command.SessionList   `cmd:"" help:"Print the sessions of a user that can be refreshed." example:"worldevents session list alice --json"`
		Revoke command.SessionRevoke `cmd:"" help:"End sessions at once, of a user, one by its id, or everybody's." example:"worldevents session revoke alice"`
	} `cmd:"" help:"Manage sessions."`
	Event struct {
		List   command.EventList   `cmd:"" help:"Print the events of a world, or those that a user has created, as a JSON array, one to a line." example:"worldevents event list --world plaza"`
		Show   command.EventShow   `cmd:"" help:"Print an event with its RSVPs as JSON." example:"worldevents event show 01980000-0000-7000-8000-000000000001"`
		Edit   command.EventEdit   `cmd:"" help:"Change an event." example:"worldevents event edit 01980000-0000-7000-8000-000000000001 --name 'Rooftop concert, moved' --scheduled-at 2030-01-02T19:00:00+01:00"`
		Remove command.EventRemove `cmd:"" help:"Delete an event with its RSVPs, or those that a user has created, in small batches." example:"worldevents event remove 01980000-0000-7000-8000-000000000001"`
		Prune  command.EventPrune  `cmd:"" help:"Delete the events that were scheduled before a time, with their RSVPs, in small batches." example:"worldevents event prune --older-than 90d --dry-run"`
	} `cmd:"" help:"Moderate events, and delete old ones."`
	World struct {
		List command.WorldList `cmd:"" help:"Print the worlds that have events as a JSON array, one to a line, with how many and when the last was created." example:"worldevents world list"`
	} `cmd:"" help:"Look at worlds."`
	Check       command.Check    `cmd:"" help:"Look at settings, database, disk, rights and identity provider before serving, and change nothing. Exits with status 1 on a fault." example:"worldevents check"`
	Health      command.Health   `cmd:"" help:"Ask the instance with these settings whether it is ready, at ADMIN_ADDR. Exits with status 1 if it is not." example:"worldevents health --live"`
	Copy        command.Copy     `cmd:"" help:"Copy the database into a new file or an empty database: a backup, a restore, a move. All or nothing." example:"worldevents copy --to sqlite:backup.db"`
	Replay      command.Replay   `cmd:"" name:"replay-audit" help:"After a restore: block, rename and remove again whom and what the lines of commands in a log say." example:"worldevents replay-audit audit.log"`
	Demo        command.Demo     `cmd:"" help:"Development: fill an empty database with users alice, bob and carol and the world plaza." example:"worldevents demo"`
	ShowVersion kong.VersionFlag `name:"version" help:"Print what the command version does."`
	Version     command.Version  `cmd:"" help:"Print the version and commit of this program, and the versions of Go and the database drivers." example:"worldevents version"`
}

func main() {
	keepFilesPrivate()
	// Without a channel SIGHUP would end the process.
	hangups := make(serve.Hangups, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	var cli program
	parser := kong.Must(&cli, kong.Name("worldevents"), kong.UsageOnError(), kong.Help(command.PrintHelp), kong.Vars{"version": command.Versions()},
		kong.Description("Sessions and scheduled events for social worlds. Configured by environment variables, see README.md."))
	selected, err := parser.Parse(os.Args[1:])
	if slices.ContainsFunc(os.Args, func(arg string) bool { return !utf8.ValidString(arg) }) {
		err = errors.New("arguments must be UTF-8") // the parser would replace what is not
	}
	if err != nil {
		err = errors.New(withoutURLs(err.Error(), os.Args))
	} else {
		if selected.Command() != "serve" {
			signal.Reset(syscall.SIGHUP) // a terminal that closes ends the others
		}
		err = selected.Run(setup.Contract(openapi), hangups)
	}
	if err != nil {
		reportFailure(selected, err)
	}
	logs.Stderr.Flush()
	if err != nil {
		os.Exit(1)
	}
}

// reportFailure writes the error that ends the process, in one line: in the format of the log for a command that supervisors run. selected
// is nil if the arguments name no command.
func reportFailure(selected *kong.Context, err error) {
	if selected == nil || selected.Command() != "serve" && selected.Command() != "migrate" {
		fmt.Fprintln(logs.Stderr, "worldevents:", logs.OneLine(err))
		return
	}
	c, _ := config.Inspect(false) // the format stands, whatever is wrong with other settings
	log, _ := logs.New(c)
	log.Error("failed", "command", selected.Command(), "error", logs.OneLine(err))
}

// withoutURLs removes from an error of the parser the arguments that may have a password.
func withoutURLs(text string, args []string) string {
	for _, arg := range args {
		if strings.Contains(arg, "://") {
			text = strings.ReplaceAll(text, arg, "URL")
		}
	}
	return text
}
