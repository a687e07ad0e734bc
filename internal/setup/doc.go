// Package setup turns the settings into what serve and the commands both work with: the store, the identity provider, the source of
// the certificate, and the options of the server.
//
// It starts nothing and listens nowhere. Each function copies the settings that one part needs into the options of that part, which is
// why no part of the service knows config.Config.
package setup
