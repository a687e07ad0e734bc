package command

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"worldevents/models"
)

// Replay does again what the audit lines of a log say.
type Replay struct {
	File string `arg:"" help:"A log with the lines that commands have left, oldest first; - for standard input."`
}

// Run does again what commands have done to people and events since a backup that was restored. It goes by ids, and by what the
// lines come to for each user, so it may be given lines of before the backup, and run twice.
func (r Replay) Run() error {
	log := os.Stdin
	if r.File != "-" {
		var err error
		if log, err = os.Open(r.File); err != nil {
			return err
		}
		defer log.Close()
	}
	done, err := readAudit(log)
	if err != nil {
		return fmt.Errorf("%s: %w", r.File, err)
	}
	return operate(false, func(o *operation) error {
		replay := replay{operation: o}
		err := replay.all(done)
		if err != nil {
			return err
		}
		return printJSON(struct {
			Repeated int `json:"repeated"`
		}{replay.repeated})
	})
}

// audited is what the audit lines of a log come to.
type audited struct {
	users      map[models.ID]*auditedUser
	events     map[models.ID]bool   // that were removed
	created    []models.EventFilter // what was removed of users' events
	identities map[models.Hash]bool // whether they are blocked
}

// auditedUser is what has become of a user, as far as lines say it.
type auditedUser struct {
	removed  bool
	events   bool // went with the user
	blocked  *bool
	username string       // "" for a user who was not renamed
	identity *models.Hash // of one who was blocked or unblocked, and whose identity was not since
}

var errDamaged = errors.New("an audit line that is damaged")

// maxAuditLine bounds a line of a log, in bytes.
const maxAuditLine = 1 << 20

// readAudit reads the audit lines among others of a log.
func readAudit(log io.Reader) (audited, error) {
	a := audited{users: make(map[models.ID]*auditedUser), events: make(map[models.ID]bool), identities: make(map[models.Hash]bool)}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxAuditLine)
	n := 0
	for lines.Scan() {
		n++
		line, err := parseAudit(lines.Text())
		if err == nil && line != nil {
			err = a.add(line)
		}
		if err != nil {
			return a, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return a, lines.Err()
}

// parseAudit returns the fields of an audit line, in either format of the log and perhaps behind what another log has put before
// it; nil for any other line.
func parseAudit(text string) (map[string]string, error) {
	fields := make(map[string]string)
	if i := strings.Index(text, `{"time":`); i >= 0 {
		if !strings.Contains(text, `"msg":"audit"`) {
			return nil, nil
		}
		var all map[string]any
		if err := json.Unmarshal([]byte(text[i:]), &all); err != nil {
			return nil, fmt.Errorf("an audit line that is damaged: %w", err)
		}
		for name, value := range all {
			fields[name] = fmt.Sprint(value)
		}
	} else if i := strings.Index(text, "time="); i >= 0 && strings.Contains(text, " msg=audit ") {
		for rest := text[i:]; rest != ""; {
			name, value, ok := strings.Cut(rest, "=")
			if quoted, err := strconv.QuotedPrefix(value); err == nil {
				rest = value[len(quoted):]
				value, _ = strconv.Unquote(quoted) // it is one
			} else {
				value, rest, _ = strings.Cut(value, " ")
			}
			if !ok {
				return nil, errDamaged
			}
			fields[name], rest = value, strings.TrimPrefix(rest, " ")
		}
	}
	if fields["msg"] != "audit" {
		return nil, nil
	}
	return fields, nil
}

// add takes a line into account.
func (a *audited) add(line map[string]string) error {
	var identity *models.Hash
	if text := line["identity"]; text != "" {
		parsed, err := parseIdentity(text)
		if err != nil {
			return fmt.Errorf("identity %w", err)
		}
		identity = &parsed
	}
	action := line["action"]
	if action == "event remove" {
		if line["event"] == "" {
			return a.addCreated(line)
		}
		id, err := models.ParseID(line["event"])
		a.events[id] = true
		return err
	}
	if line["user"] == "" && identity != nil { // user block or user unblock, of the identity alone
		a.identities[*identity] = action == "user block"
		for _, user := range a.users {
			if user.identity != nil && *user.identity == *identity {
				user.identity = nil
			}
		}
		return nil
	}
	if action != "user rename" && action != "user block" && action != "user unblock" && action != "user remove" {
		return nil
	}
	id, err := models.ParseID(line["user"])
	if err != nil {
		return err
	}
	user := a.users[id]
	if user == nil {
		user = new(auditedUser)
		a.users[id] = user
	}
	switch action {
	case "user rename":
		user.username = line["to"]
	case "user remove":
		user.removed, user.events = true, line["events"] != ""
		if identity != nil {
			a.identities[*identity] = true
		}
	default:
		user.blocked, user.identity = new(action == "user block"), identity
	}
	return nil
}

// addCreated takes into account that a user's events were removed: those that had been created by then.
func (a *audited) addCreated(line map[string]string) (err error) {
	if line["rsvps"] == "" { // the last of what such a line says: without it a cut line would be about more events
		return errDamaged
	}
	f := models.EventFilter{World: line["world"]}
	if f.Creator, err = models.ParseID(line["user"]); err == nil && line["since"] != "" {
		f.Since, err = time.Parse(time.RFC3339, line["since"])
	}
	if err == nil {
		f.Until, err = time.Parse(time.RFC3339, cmp.Or(line["until"], line["time"]))
	}
	a.created = append(a.created, f)
	return err
}

// replay changes a database as audit lines say.
type replay struct {
	*operation
	repeated int
}

// again counts a change, and leaves a line of it.
func (r *replay) again(action string, attributes ...any) {
	r.repeated++
	r.audit(action, append(attributes, "repeated", true)...)
}

// all repeats everything. A name may be free only once another user has theirs: those are renamed again as long as that helps.
func (r *replay) all(done audited) error {
	for identity, blocked := range done.identities {
		if err := r.identity(identity, blocked); err != nil {
			return err
		}
	}
	for id := range done.events {
		removed, err := r.store.RemoveEvent(r, id)
		if removed.Events > 0 {
			r.again("event remove", "event", id, "rsvps", removed.RSVPs)
		}
		if err != nil && !errors.Is(err, models.ErrNoEvent) {
			return err
		}
	}
	for _, filter := range done.created { // while their creators are there
		removed, err := r.store.RemoveEvents(r, models.EventRemoval{EventFilter: filter, Progress: func(models.RemovedEvents) {}})
		if removed.Events > 0 {
			r.again("event remove", "user", filter.Creator, "world", filter.World, "since", exact(filter.Since), "until", exact(filter.Until), "events", removed.Events, "rsvps", removed.RSVPs)
		}
		if err != nil {
			return err
		}
	}
	for id, user := range done.users {
		if err := r.user(id, user); err != nil {
			return err
		}
	}
	for {
		before, taken := r.repeated, error(nil)
		for id, user := range done.users {
			if user.username == "" || user.removed {
				continue
			}
			if err := r.rename(id, user.username); errors.Is(err, models.ErrUserExists) || errors.Is(err, models.ErrUserAlike) {
				taken = fmt.Errorf("rename %s to %q: %w", id, user.username, err)
			} else if err != nil {
				return err
			}
		}
		if taken == nil || r.repeated == before {
			return taken
		}
	}
}

func (r *replay) identity(identity models.Hash, blocked bool) error {
	change, action := r.store.UnblockIdentity, "user unblock"
	if blocked {
		change, action = r.store.BlockIdentity, "user block"
	}
	changed, err := change(r, identity)
	if changed {
		r.again(action, "identity", fmt.Sprintf("%x", identity))
	}
	return err
}

// user removes, blocks or unblocks a user again. One whom the backup does not have yet is blocked by the identity, with which
// they would become a new user.
func (r *replay) user(id models.ID, user *auditedUser) error {
	who := models.Who{ID: id}
	found, err := r.store.FindUser(r, who)
	switch {
	case errors.Is(err, models.ErrNoUser):
		if user.removed || user.identity == nil || user.blocked == nil {
			return nil
		}
		return r.identity(*user.identity, *user.blocked)
	case err != nil:
		return err
	case user.removed:
		removed, err := r.store.RemoveUser(r, who, models.UserRemoval{Events: user.events, Progress: func(models.RemovedEvents) {}})
		if err == nil && user.events {
			r.again("user remove", "user", id, "events", removed.Created.Events)
		} else if err == nil {
			r.again("user remove", "user", id)
		}
		return err
	case user.blocked == nil:
		return nil
	}
	change, action := r.store.UnblockUser, "user unblock"
	if *user.blocked {
		change, action = r.store.BlockUser, "user block"
	}
	_, changed, err := change(r, who)
	if changed {
		r.again(action, "user", id, "username", found.Username)
	}
	return err
}

// rename returns models.ErrUserExists or models.ErrUserAlike for a name that is not free.
func (r *replay) rename(id models.ID, to string) error {
	who := models.Who{ID: id}
	found, err := r.store.FindUser(r, who)
	if errors.Is(err, models.ErrNoUser) || err == nil && found.Username == to {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := r.store.RenameUser(r, who, to); err != nil {
		return err
	}
	r.again("user rename", "user", id, "username", found.Username, "to", to)
	return nil
}
