package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"worldevents/models"
)

// Run signs a user in. In production the user must exist.
func (i sessionIssueCommand) Run() error {
	c, store, err := openCurrent(true)
	if err != nil {
		return err
	}
	defer store.Close()
	log, _ := newLogs(c)
	srv, err := newServer(c, store, log, log)
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

// sessionLine is what the command prints of a session: nothing of its tokens.
type sessionLine struct {
	ID        models.ID `json:"id"`
	Device    string    `json:"device"`
	Network   string    `json:"network"`
	Created   time.Time `json:"created"`
	Refreshed time.Time `json:"refreshed"`
	Expires   time.Time `json:"expires"`
}

// Run lists the sessions of a user.
func (l sessionListCommand) Run() error {
	_, store, err := openCurrent(false)
	if err != nil {
		return err
	}
	defer store.Close()
	user, err := store.FindUser(context.Background(), l.Name)
	if err != nil {
		return err
	}
	sessions, err := store.Sessions(context.Background(), user.ID)
	if err != nil {
		return err
	}
	lines := []sessionLine{}
	for _, s := range sessions {
		lines = append(lines, sessionLine{s.ID, s.Device, s.Network, s.CreatedAt.UTC(), s.RefreshedAt.UTC(), s.ExpiresAt.UTC()})
	}
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
}

// Run revokes sessions.
func (r sessionRevokeCommand) Run() error {
	if n := given(r.Name != "") + given(r.ID != "") + given(r.All); n != 1 {
		return errors.New("session revoke needs one of: a username, --id, --all")
	}
	var session models.ID
	if r.ID != "" {
		var err error
		if session, err = models.ParseID(r.ID); err != nil {
			return fmt.Errorf("--id: %w", err)
		}
	}
	_, store, err := openCurrent(false)
	if err != nil {
		return err
	}
	defer store.Close()
	revoked, err := r.revoke(store, session)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(struct {
			Revoked int64 `json:"revoked"`
		}{revoked})
	}
	fmt.Println("revoked:", revoked)
	return nil
}

func (r sessionRevokeCommand) revoke(store *models.Store, session models.ID) (int64, error) {
	ctx := context.Background()
	switch {
	case r.All:
		return store.RevokeAll(ctx)
	case r.ID != "":
		revoked, err := store.RevokeSession(ctx, models.Caller{SessionID: session})
		return int64(len(revoked)), err
	}
	user, err := store.FindUser(ctx, r.Name)
	if err != nil {
		return 0, err
	}
	revoked, err := store.RevokeUser(ctx, user.ID, models.ID{})
	return int64(len(revoked)), err
}

func given(yes bool) int {
	if yes {
		return 1
	}
	return 0
}
