// Package ownevents serves /events, the page on which users see, edit, cancel and leave the events that they made and joined.
//
// The user is found by the current refresh token (signin.Service.Current), since a page without a script cannot refresh a JWT. Whether
// the session lives, and whether the event is the user's, is decided again by the statement that changes it, which is package models'.
// What an event may be is the contract's to say. The package has no JSON, and changes nothing by GET:
//
//	GET /events ---------> the lists, made and joined, to come or past
//	GET /events/ID.ics --> an event for a calendar
//	GET /events/edit ----> the form, with a digest of what it shows
//	POST /events/edit ---> seen as it is?  --> EditOwnEvent --> an audit line --> the lists
//	                            '--> edited meanwhile --> the form with both
//	GET /events/cancel --> asks once
//	POST /events/cancel, POST /events/leave
package ownevents
