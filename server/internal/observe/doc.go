// Package observe has what an operator sees: a log line and metrics for each request, the log and counts of session events, the readiness
// of the instance, and the listener with all this. Labels of metrics come from the contract and the code, never from a request; neither
// logs nor metrics have secrets.
//
// An Observer has one Series for each operation and each page. A Request is the log's view of a request, filled in until Record:
//
//	Begin            id, the head              Series, Code             the response has ended
//	  |   middleware: Client, User ...   handler: World, Event, waits         |
//	  '---------------------------------------------------------------->   Record  -->  a line (one in LogEvery; failures all)
//	                                                                              '->  worldevents_requests_total, _duration_seconds
//
// Readiness is the state of /readyz and worldevents_readiness. An instance starts and stops once; in between its store decides:
//
//	starting  -- Ready -->  ready  <-->  unwritable, unavailable, timeout, busy, failed  -- Drain -->  stopping
//	    '-- StartFailed: the state of the failure, until Ready
package observe
