// Package observe shows an operator what the service does: a log line and metrics for each request, the log and the counts of what
// happens to sessions, whether the instance is ready, and the listener that answers all this.
//
// It never touches a response of the public listener, and decides nothing about a request. Labels of metrics come from the contract
// and from lists in the code, never from a request; neither the log nor a metric has a secret.
//
// An Observer has one Series for each operation of the contract and each page: what their requests are counted and logged as. A
// Request is what the log says of one of them. The server embeds it in what it carries along, and fills it in until Record:
//
//	Begin            id, the head              Series, Code             the response has ended
//	  |   middleware: Client, User ...   handler: World, Event, waits         |
//	  '---------------------------------------------------------------->   Record  -->  a line (one in LogEvery; failures all)
//	                                                                              '->  worldevents_requests_total, _duration_seconds
//
// Readiness is what /readyz and worldevents_readiness say. An instance begins and ends once; in between its store decides:
//
//	starting  -- Ready -->  ready  <-->  unwritable, unavailable, timeout, busy, failed  -- Drain -->  stopping
//	    '-- StartFailed: the state of the failure, until Ready
package observe
