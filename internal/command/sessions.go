package command

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"worldevents/internal/logs"
	"worldevents/internal/setup"
	"worldevents/models"
	"worldevents/server"
)

type (
	// SessionIssue signs a user in and prints the cookies. In development a new username makes a new user.
	SessionIssue struct {
		whom
		JSON bool `help:"Print JSON."`
		// Expired is for frontends, which need not wait to see what happens then.
		Expired bool `help:"Development: the JWT has expired already, the refresh token has not."`
	}
	// SessionList prints the sessions of a user that can be refreshed.
	SessionList struct {
		whom
		JSON bool `help:"Print JSON."`
	}
	// SessionRevoke ends sessions at once, of a user all.
	SessionRevoke struct {
		whom
		ID   string `help:"The session with this id." placeholder:"ID"`
		All  bool   `help:"All sessions of everybody, as after restoring a backup."`
		JSON bool   `help:"Print JSON."`
	}
)

// Run signs a user in, as the page /sign-in does, and prints the tokens. In production the user must exist.
func (i SessionIssue) Run(contract setup.Contract) error {
	return i.withUser(true, func(cmd *command, who models.Who) error {
		if i.Expired && !cmd.config.Development {
			return errors.New("session issue --expired: only with APP_ENV=development")
		}
		// A server without listeners makes the session, so that its cookies are those of a sign-in.
		log, _ := logs.New(cmd.config)
		options, err := setup.Server(cmd.config, contract, cmd.store, log, log)
		if err != nil {
			return err
		}
		if i.Expired {
			options.Now = func() time.Time { return time.Now().Add(-options.JWTTTL - time.Second) }
		}
		srv, err := server.New(options)
		if err != nil {
			return err
		}
		session, err := srv.SignIn(cmd, who, cmd.config.Development)
		if err != nil {
			return err
		}
		cmd.audit("session issue", "user", session.UserID, "username", session.Username)
		if i.JSON {
			return printJSON(session)
		}
		fmt.Printf("token=%s; refreshToken=%s\n", session.Token, session.RefreshToken)
		return nil
	})
}

// sessionLine is a session without its tokens.
type sessionLine struct {
	ID        models.ID `json:"id"`
	Device    string    `json:"device"`
	Network   string    `json:"network"`
	Created   time.Time `json:"created"`
	Refreshed time.Time `json:"refreshed"`
	Expires   time.Time `json:"expires"`
}

func newSessionLine(s models.Session) sessionLine {
	return sessionLine{s.ID, s.Device, s.Network, s.CreatedAt.UTC(), s.RefreshedAt.UTC(), s.ExpiresAt.UTC()}
}

func (l SessionList) Run() error {
	return l.withUser(false, func(cmd *command, who models.Who) error {
		user, err := cmd.store.FindUser(cmd, who)
		if err != nil {
			return err
		}
		sessions, err := cmd.store.Sessions(cmd, user.ID)
		if err != nil {
			return err
		}
		lines := linesOf(sessions, newSessionLine)
		if l.JSON {
			return printJSON(lines)
		}
		table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ID\tCREATED\tREFRESHED\tEXPIRES\tNETWORK\tDEVICE")
		for _, s := range lines {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", s.ID, s.Created.Format(time.RFC3339),
				s.Refreshed.Format(time.RFC3339), s.Expires.Format(time.RFC3339), s.Network, s.Device)
		}
		return table.Flush()
	})
}

// Run revokes sessions. Their JWTs end at once, too.
func (r SessionRevoke) Run() error {
	if n := given(r.Name != "") + given(r.UserID != "") + given(r.ID != "") + given(r.All); n != 1 {
		return errors.New("session revoke needs one of: a username, --user-id, --id, --all")
	}
	var session models.ID
	if r.ID != "" {
		var err error
		if session, err = models.ParseID(r.ID); err != nil {
			return fmt.Errorf("--id: %w", err)
		}
	}
	return withStore(false, func(cmd *command) error {
		revoked, err := r.revoke(cmd, session)
		if err != nil {
			return err
		}
		if r.JSON {
			return printJSON(map[string]any{"revoked": revoked})
		}
		fmt.Println("revoked:", revoked)
		return nil
	})
}

// revoke leaves an audit line even if there was nothing to revoke: it says what the operator wanted.
func (r SessionRevoke) revoke(cmd *command, session models.ID) (int64, error) {
	switch {
	case r.All:
		revoked, err := cmd.store.RevokeAll(cmd)
		if revoked > 0 || err == nil {
			cmd.audit("session revoke", "all", true, "revoked", revoked)
		}
		return revoked, err
	case r.ID != "":
		revoked, err := cmd.store.RevokeSession(cmd, models.Caller{SessionID: session})
		if err == nil {
			cmd.audit("session revoke", "session", session, "revoked", len(revoked))
		}
		return int64(len(revoked)), err
	}
	who, err := r.who()
	if err != nil {
		return 0, err
	}
	user, err := cmd.store.FindUser(cmd, who)
	if err != nil {
		return 0, err
	}
	revoked, err := cmd.store.RevokeUser(cmd, user.ID, models.ID{})
	if err == nil {
		cmd.audit("session revoke", "user", user.ID, "username", user.Username, "revoked", len(revoked))
	}
	return int64(len(revoked)), err
}
