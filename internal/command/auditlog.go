package command

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"worldevents/models"
)

// audited is the sum of the audit lines of a log: for each user and each identity the last line wins. So Replay may get lines that were
// already in force when the backup was made.
type audited struct {
	lines      []map[string]string // all of them, oldest first
	users      map[models.ID]*auditedUser
	events     map[models.ID]time.Time // that were removed, and when the last of them was created; zero if a line does not say that
	created    []models.EventFilter    // what was removed of users' events
	identities map[models.Hash]bool    // whether they are blocked
}

// auditedUser is what the lines say about a user.
type auditedUser struct {
	removed  bool         // for ever: an id is never used again
	events   bool         // the user's events were removed, too
	blocked  *bool        // nil without such a line
	username string       // "" without a rename
	identity *models.Hash // of a block or unblock; nil after a later line about the identity itself
}

var errDamaged = errors.New("an audit line that is damaged")

// maxAuditLine bounds a line of a log, in bytes. A longer one is an error, since it may be an audit line.
const maxAuditLine = 1 << 20

func readAudit(log io.Reader) (audited, error) {
	a := audited{users: make(map[models.ID]*auditedUser), events: make(map[models.ID]time.Time), identities: make(map[models.Hash]bool)}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, maxAuditLine)
	n := 0
	for lines.Scan() {
		n++
		line, err := parseAudit(lines.Text())
		if err == nil && line != nil {
			a.lines = append(a.lines, line)
			err = a.add(line)
		}
		if err != nil {
			return a, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return a, lines.Err()
}

// parseAudit returns the fields of an audit line in either format, nil for any other line. It ignores what another log, such as the
// journal, has put in front. A damaged audit line is an error: to skip it would undo what the operator did.
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
		return a.addRemoved(line)
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

// addRemoved adds the removal of one event. What the same key has created since stays.
func (a *audited) addRemoved(line map[string]string) error {
	id, err := models.ParseID(line["event"])
	var created time.Time
	if err == nil && line["created"] != "" {
		created, err = time.Parse(time.RFC3339, line["created"])
	}
	if before, ok := a.events[id]; !ok || created.IsZero() || !before.IsZero() && created.After(before) {
		a.events[id] = created
	}
	return err
}

// addCreated adds the removal of a user's events. Without a limit in the line, its own time is the limit: later events stay.
func (a *audited) addCreated(line map[string]string) (err error) {
	if line["rsvps"] == "" { // the last field: a line that is cut before it would remove more events
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
