package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
)

// eddsa measures calls whose JWT a private key signs, against those whose a secret does.
func (b *bench) eddsa() error {
	const refresh, session = "refresh, signed by a private key", "session, signed by a private key"
	if !b.only.MatchString(refresh) && !b.only.MatchString(session) {
		return nil
	}
	file := filepath.Join(b.dir, "jwt.pem")
	der, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(jwtKey[:ed25519.SeedSize]))
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return err
	}
	c := newCrowd(users)
	var refreshes, sessions []contender
	for _, of := range []struct {
		database string
		build
	}{
		{"eddsa", build{name: "by a private key", binary: b.binary, settings: []string{"JWT_PRIVATE_KEY_FILE=" + file}}},
		{"hs256", build{name: "by a secret", binary: b.binary}},
	} {
		s, err := b.side(c, of.build, of.database)
		if err != nil {
			return err
		}
		defer s.stop()
		token, err := s.refreshed(refreshTokenOf(users))
		if err != nil {
			return err
		}
		own := crowd{"", token}
		refreshes = append(refreshes, calls(of.name, s.server, connections, s.refresh))
		sessions = append(sessions, calls(of.name, s.server, connections, func(int) requests { return always(own.get("/api/auth/session", "")) }))
	}
	if err := b.row(refresh, "", refreshes...); err != nil {
		return err
	}
	return b.row(session, "", sessions...)
}

// refreshed spends a refresh token and returns the JWT that comes for it.
func (s *server) refreshed(refreshToken string) (jwt string, err error) {
	r, err := http.NewRequest("GET", "http://"+s.addr+"/api/auth/refresh", nil)
	if err != nil {
		return "", err
	}
	r.Host = "api.example.org"
	r.AddCookie(&http.Cookie{Name: "refreshToken", Value: refreshToken})
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	res.Body.Close()
	for _, cookie := range res.Cookies() {
		if cookie.Name == "token" {
			return cookie.Value, nil
		}
	}
	return "", errors.New("refresh: " + res.Status)
}
