package dberr

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// RootCause is err for an operator: the words of the database or the network, without what was put in front.
func RootCause(err error) string {
	for {
		var inner error
		switch e := err.(type) {
		case *net.DNSError: // says more than what it wraps, which may be nothing
			return e.Error()
		case interface{ Unwrap() error }:
			inner = e.Unwrap()
		case interface{ Unwrap() []error }: // of several attempts, the last
			inner = e.Unwrap()[len(e.Unwrap())-1]
		}
		if inner == nil {
			return inWords(err)
		}
		err = inner
	}
}

// inWords explains an error of a connection whose own text says too little.
func inWords(err error) string {
	var length *pgproto3.ExceededMaxBodyLenErr
	var network net.Error
	switch {
	case err == io.EOF, err == io.ErrUnexpectedEOF:
		return "it closes the connection without a word: is it PostgreSQL?"
	case errors.As(err, &length), strings.HasPrefix(err.Error(), "unknown message type"), strings.HasPrefix(err.Error(), "invalid message length"):
		return "it does not speak PostgreSQL's protocol"
	case err == context.DeadlineExceeded, errors.As(err, &network) && network.Timeout():
		return "no response in time"
	}
	return err.Error()
}
