// Package command has all that the program does besides serving: each command is a struct of its arguments with a method Run, which
// main.go lists. It owns what commands print, but for what copydb and inspect return, and the audit lines that they leave.
//
// It never touches the database itself, nor the words of the contract: package models changes the one, and package server checks an
// event against the other. Only health needs a running service. No command disturbs one.
//
// Most commands are a function that withStore runs on the configured database, after CheckSchema has found its schema. The result
// goes to stdout as JSON, words and progress go to stderr, and a change leaves one line there, which replay reads again:
//
//	stdout  {"id":"…","username":"alice"}
//	stderr  {"time":"…","level":"INFO","msg":"audit","action":"user rename","os_user":"root","user":"…","username":"bob","to":"alice"}
package command
