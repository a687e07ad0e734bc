package command

import (
	"time"

	"worldevents/gen"
	"worldevents/models"
)

// UserShow prints everything that is kept about a user, as for a request under data protection law.
type UserShow struct{ whom }

type person struct {
	userLine
	Issuer   *string         `json:"issuer"`
	Subject  *string         `json:"subject"`
	Folded   *string         `json:"folded"`   // for comparing names; see package names
	Skeleton *string         `json:"skeleton"` // likewise
	Sessions []personSession `json:"sessions"`
	Events   []madeEvent     `json:"events"`
	RSVPs    []personRSVP    `json:"rsvps"`
}

type personSession struct {
	sessionLine
	Revoked     *time.Time `json:"revoked"`
	ProviderSID *string    `json:"providerSid,omitempty"` // at the identity provider
}

type personRSVP struct {
	Event       models.ID    `json:"event"`
	World       string       `json:"world"`
	Name        string       `json:"name"`
	ScheduledAt gen.DateTime `json:"scheduledAt"`
	Joined      time.Time    `json:"joined"`
}

func (s UserShow) Run() error {
	return s.withUser(false, func(cmd *command, who models.Who) error {
		found, err := cmd.store.FindPerson(cmd, who)
		if err != nil {
			return err
		}
		return printJSON(person{
			userLine: newUserLine(found.User), Issuer: found.Issuer, Subject: found.Subject, Folded: found.Folded, Skeleton: found.Skeleton,
			Sessions: linesOf(found.Sessions, func(s models.Session) personSession {
				return personSession{newSessionLine(s), utc(s.RevokedAt), s.ProviderSID}
			}),
			Events: linesOf(found.Events, newMadeEvent),
			RSVPs: linesOf(found.RSVPs, func(r models.Joined) personRSVP {
				return personRSVP{r.EventID, r.WorldID, r.Name, gen.DateTime(r.ScheduledAt), r.CreatedAt.UTC()}
			}),
		})
	})
}
