// Package livelist lets requests of listEvents wait until the list is another one than the client has.
//
// A hub asks the database one question for all who wait: which worlds have changed since it asked last? It asks after a write of
// this instance, when another instance says that it has written, and each second without either. Who waits for a world that has
// changed looks at the list again, like any other request, and waits on if that is still the one of If-None-Match.
//
// Nothing is lost in between: a request is known to the hub before it looks at its list for the first time. A write that this look
// does not see is committed after it, so a question that sees the write begins after that, too.
//
// Who waits holds nothing but a connection and a place. A look, and the response that comes of it, takes one of few turns: thousands
// who are woken together are served one after the other, and leave the database to others, too.
package livelist
