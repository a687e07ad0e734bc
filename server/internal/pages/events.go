package pages

import "time"

// Events are a user's events: the lists, a form, or the question whether to cancel an event.
type Events struct {
	World string // of all events, or ""
	// All leads to the lists of all worlds, Back to both lists; "" if they are shown.
	All, Back string
	List      string // the shown list, "" for both
	Past      bool
	Lists     []EventList
	Edit      *EventForm
	Cancel    *Event
}

type EventList struct {
	Name         string // in ids of elements
	Joined, Past bool
	Months       []EventMonth
	// More leads to the next events, or is "". Other leads to those to come, or past.
	More, Other string
}

// EventMonth has the events of a month, in UTC.
type EventMonth struct {
	At     time.Time // of the first
	Events []Event
}

// Event is in UTC. The links are "" for what its user cannot do.
type Event struct {
	ID, World, Name                        string
	At                                     time.Time
	Attendees                              int
	CountedAll                             bool // no more attendees exist
	InWorld, Edit, Cancel, Leave, Calendar string
}

type EventForm struct {
	ID, World, Action       string
	Shown                   string // the digest of its fields
	Name, Description, Time EventField
	Faults                  map[string]string // by member
	Edited                  bool              // since the form was shown
}

type EventField struct {
	ID    string // of its control
	Text  string // as typed
	Fault string // or ""
	// Edited means that the event has another value since the form was shown: Now, or NowAt in UTC.
	Edited bool
	Now    string
	NowAt  time.Time
}
