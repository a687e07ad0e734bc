package pages

import "time"

// Events are those of a user. What is shown are the lists, a form, or the question whether to cancel an event.
type Events struct {
	World  string   // which the lists are narrowed to, "" for all
	Worlds []string // those of the events that are shown
	// All leads to the lists of all worlds, Back to both lists; "" where that is what is shown.
	All, Back string
	List      string // which of the lists is shown, "" for both
	Past      bool
	Lists     []EventList
	Edit      *EventForm
	Cancel    *Event
}

// EventList is a list of events that the user made, or joined.
type EventList struct {
	Name         string // in ids of elements
	Joined, Past bool
	Months       []EventMonth
	// More leads to the events that follow, "" if there are none. Other leads to those to come, or past.
	More, Other string
}

// EventMonth are the events of a list within a month, in UTC.
type EventMonth struct {
	At     time.Time // of the first
	Events []Event
}

// Event is an event of a list, in UTC. The links are "" for what its user cannot do.
type Event struct {
	ID, World, Name                        string
	At                                     time.Time
	Attendees                              int
	CountedAll                             bool // there are no more attendees
	InWorld, Edit, Cancel, Leave, Calendar string
}

// EventForm is the form of an event.
type EventForm struct {
	ID, World, Action       string
	Shown                   string // stands for what the form shows
	Name, Description, Time EventField
	Faults                  map[string]string // by member
	Edited                  bool              // the event was edited since the form was shown
}

// EventField is a field of a form.
type EventField struct {
	ID    string // of its control
	Text  string // what was typed
	Fault string // what it must be, "" if it fits
	// Edited means that the event has something else since the form was shown: the text Now, or the time NowAt in UTC.
	Edited bool
	Now    string
	NowAt  time.Time
}
