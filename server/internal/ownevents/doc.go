// Package ownevents serves /events, the page on which users see, edit, cancel and leave their events.
//
// The current refresh token identifies the user (signin.Service.Current), since a page without a script cannot refresh a JWT. The statement
// that changes an event checks the session and the owner again. The contract has the rules for events. GET changes nothing:
//
//	GET /events ---------> the lists, made and joined, to come or past
//	GET /events/ID.ics --> an event for a calendar
//	GET /events/edit ----> the form, with a digest of what it shows
//	POST /events/edit ---> seen as it is?  --> EditOwnEvent --> an audit line --> the lists
//	                            '--> edited meanwhile --> the form with both
//	GET /events/cancel --> asks once
//	POST /events/cancel, POST /events/leave
package ownevents
