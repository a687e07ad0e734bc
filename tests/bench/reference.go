package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// reference is the yardstick: net/http and pgx by hand, one statement for each call, prepared by pgx, JSON straight
// from the bytes on the wire. It does what a call is for and nothing besides: no log, no metrics, no request id, no
// ETag, no pages, no limits, no rules for browsers, hardly any validation.
type reference struct {
	db      *pgxpool.Pool
	buffers sync.Pool
}

func newReference(url string) (http.Handler, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MinConns, config.MaxConns = poolSize, poolSize
	// All that is asked for stands in an index, in order: planning anew, compiling and sorting can only cost.
	for _, setting := range []string{"jit", "enable_bitmapscan", "enable_sort"} {
		config.ConnConfig.RuntimeParams[setting] = "off"
	}
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	db, err := pgxpool.NewWithConfig(context.Background(), config)
	return &reference{db: db, buffers: sync.Pool{New: func() any { return new([]byte) }}}, err
}

func (s *reference) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if path == "/api/auth/refresh" {
		s.refresh(w, r)
		return
	}
	c, ok := authenticated(r)
	if !ok {
		fail(w, http.StatusUnauthorized)
		return
	}
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case r.Method == http.MethodGet:
		s.list(w, r, c, last)
	case r.Method == http.MethodDelete:
		s.leave(w, r, c, last)
	case strings.HasPrefix(path, "/api/event/join/"):
		s.join(w, r, c, last)
	default:
		s.create(w, r, c, last)
	}
}

// parser is what all servers but the service check JWTs with.
var parser = jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired())

func keyOf(*jwt.Token) (any, error) { return jwtKey, nil }

// id is a UUID in the one Go type that pgx sends without a detour through text.
type id = [16]byte

func parseID(text string) (id, bool) {
	u, err := uuid.Parse(text)
	return u, err == nil
}

// claims are what a JWT says, in the order in which the service writes it.
type claims struct {
	jwt.RegisteredClaims
	SessionID string `json:"sid"`
	Username  string `json:"username"`
}

// caller is who sends a request.
type caller struct{ user, session id }

// authenticated verifies the JWT in the cookie.
func authenticated(r *http.Request) (c caller, ok bool) {
	cookie, err := r.Cookie("token")
	if err != nil {
		return c, false
	}
	var claims claims
	if _, err := parser.ParseWithClaims(cookie.Value, &claims, keyOf); err != nil {
		return c, false
	}
	var isUser, isSession bool
	c.user, isUser = parseID(claims.Subject)
	c.session, isSession = parseID(claims.SessionID)
	return c, isUser && isSession
}

var (
	jsonType    = []string{"application/json"}
	successText = []byte(`{"success":true}`)
	successSize = []string{"16"}
)

func fail(w http.ResponseWriter, status int) {
	w.Header()["Content-Type"] = jsonType
	w.WriteHeader(status)
	w.Write([]byte(`{"error":"refused"}`))
}

func succeed(w http.ResponseWriter) {
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = jsonType, successSize
	w.Write(successText)
}

// listStatement reads one index for the events and one for the RSVPs, an event's usernames as one value. That the
// session is not revoked is a condition of it, as of all other statements.
const listStatement = `
	SELECT e.id, e.name, e.description, e.scheduled_at, (
		SELECT string_agg(username, E'\n') FROM (
			SELECT username FROM rsvps WHERE event_number = e.number ORDER BY created_at, user_number
		) ordered)
	FROM events e WHERE e.world_id = $1 AND EXISTS (SELECT 1 FROM sessions WHERE id = $2 AND user_id = $3 AND revoked_at IS NULL)
	ORDER BY e.scheduled_at, e.id`

func (s *reference) list(w http.ResponseWriter, r *http.Request, c caller, world string) {
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	b := append((*buffer)[:0], `{"events":[`...)
	rows, err := s.db.Query(r.Context(), listStatement, world, c.session, c.user)
	if err != nil {
		fail(w, http.StatusInternalServerError)
		return
	}
	events := 0
	for ; rows.Next(); events++ {
		if events > 0 {
			b = append(b, ',')
		}
		v := rows.RawValues()
		b = appendEvent(b, v[0], v[1], v[2], v[3], v[4])
	}
	if rows.Err() != nil {
		fail(w, http.StatusInternalServerError)
		return
	}
	if events == 0 && !s.active(r.Context(), c) {
		fail(w, http.StatusUnauthorized)
		return
	}
	b = append(b, "]}"...)
	*buffer = b
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(b))}
	w.Write(b)
}

// appendEvent writes an event from PostgreSQL's binary format.
func appendEvent(b, id, name, description, scheduledAt, usernames []byte) []byte {
	b = append(b, `{"id":"`...)
	b = hex.AppendEncode(b, id[:4])
	for i := 4; i < 10; i += 2 {
		b = append(b, '-')
		b = hex.AppendEncode(b, id[i:i+2])
	}
	b = append(b, '-')
	b = hex.AppendEncode(b, id[10:])
	const year2000 = 946684800e6 // in microseconds since 1970
	at := time.UnixMicro(int64(binary.BigEndian.Uint64(scheduledAt)) + year2000).UTC()
	return appendRest(append(b, '"'), name, description, at, usernames)
}

// appendRest is what follows the id.
func appendRest(b, name, description []byte, scheduledAt time.Time, usernames []byte) []byte {
	b = append(b, `,"name":`...)
	b = appendQuoted(b, name)
	b = append(b, `,"description":`...)
	b = appendQuoted(b, description)
	b = append(b, `,"scheduledAt":"`...)
	b = scheduledAt.AppendFormat(b, "2006-01-02T15:04:05.000Z")
	b = append(b, `","RSVPs":[`...)
	for more, plain := len(usernames) > 0, isPlain(usernames); more; {
		var name []byte
		name, usernames, more = bytes.Cut(usernames, lineFeed)
		if plain {
			b = append(append(append(b, `{"user":{"username":"`...), name...), '"')
		} else {
			b = appendQuoted(append(b, `{"user":{"username":`...), name)
		}
		b = append(b, "}},"...)
	}
	if b[len(b)-1] == ',' {
		b = b[:len(b)-1]
	}
	return append(b, "]}"...)
}

var lineFeed = []byte{'\n'}

// isPlain reports whether nothing in text but line feeds needs an escape.
func isPlain(text []byte) bool {
	for _, c := range text {
		if odd[c] {
			return false
		}
	}
	return true
}

var odd = func() (odd [256]bool) {
	for c := range odd {
		odd[c] = c < ' ' && c != '\n' || c == '"' || c == '\\' || c >= 0x7f
	}
	return odd
}()

func appendQuoted(b, text []byte) []byte {
	if !isPlain(text) || bytes.IndexByte(text, '\n') >= 0 {
		b, _ = jsontext.AppendQuote(b, text)
		return b
	}
	return append(append(append(b, '"'), text...), '"')
}

func (s *reference) active(ctx context.Context, c caller) (active bool) {
	s.db.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM sessions WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL)",
		c.session, c.user).Scan(&active)
	return active
}

func (s *reference) join(w http.ResponseWriter, r *http.Request, c caller, event string) {
	eventID, ok := parseID(event)
	if !ok {
		fail(w, http.StatusNotFound)
		return
	}
	tag, err := s.db.Exec(r.Context(), `
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT coalesce((SELECT number FROM events WHERE id = $1), 0), $2, number, username FROM users
		WHERE id = $3 AND EXISTS (SELECT 1 FROM sessions WHERE id = $4 AND user_id = $3 AND revoked_at IS NULL)
		ON CONFLICT DO NOTHING`,
		eventID, time.Now(), c.user, c.session)
	s.changed(w, r, c, eventID, tag, err)
}

func (s *reference) leave(w http.ResponseWriter, r *http.Request, c caller, event string) {
	eventID, ok := parseID(event)
	if !ok {
		fail(w, http.StatusNotFound)
		return
	}
	tag, err := s.db.Exec(r.Context(), `
		DELETE FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = $1)
		AND user_number = (SELECT number FROM users WHERE id = $2) AND EXISTS (SELECT 1 FROM sessions WHERE id = $3 AND user_id = $2 AND revoked_at IS NULL)`,
		eventID, c.user, c.session)
	s.changed(w, r, c, eventID, tag, err)
}

// changed responds to a join or leave.
func (s *reference) changed(w http.ResponseWriter, r *http.Request, c caller, eventID id, tag pgconn.CommandTag, err error) {
	if fault, ok := errors.AsType[*pgconn.PgError](err); ok && fault.Code == "23503" {
		fail(w, http.StatusNotFound)
		return
	}
	if err != nil {
		fail(w, http.StatusInternalServerError)
		return
	}
	if tag.RowsAffected() == 0 {
		var active, event bool
		s.db.QueryRow(r.Context(), `
			SELECT EXISTS (SELECT 1 FROM sessions WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL),
				EXISTS (SELECT 1 FROM events WHERE id = $3)`, c.session, c.user, eventID).Scan(&active, &event)
		if !active || !event {
			fail(w, http.StatusNotFound)
			return
		}
	}
	succeed(w)
}

// createBody is what a client sends to create an event.
type createBody struct {
	Name        string    `json:"name"`
	Description string    `json:"description"`
	ScheduledAt time.Time `json:"scheduledAt"`
}

func (s *reference) create(w http.ResponseWriter, r *http.Request, c caller, world string) {
	var body createBody
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Name == "" {
		fail(w, http.StatusBadRequest)
		return
	}
	eventID, err := uuid.NewV7()
	if err != nil {
		fail(w, http.StatusInternalServerError)
		return
	}
	tag, err := s.db.Exec(r.Context(), `
		WITH creator AS (
			SELECT number, id, username FROM users
			WHERE id = $1 AND EXISTS (SELECT 1 FROM sessions WHERE id = $8 AND user_id = $1 AND revoked_at IS NULL)
		), event AS (
			INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
			SELECT $2, $3, id, $4, $5, $6, $7 FROM creator
			RETURNING number
		)
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT event.number, $7, creator.number, username FROM event, creator`,
		c.user, id(eventID), world, body.Name, body.Description, body.ScheduledAt.UTC().Truncate(time.Millisecond), time.Now(), c.session)
	if err != nil {
		fail(w, http.StatusInternalServerError)
		return
	}
	if tag.RowsAffected() == 0 {
		fail(w, http.StatusUnauthorized)
		return
	}
	w.Header()["Event-Id"] = []string{eventID.String()}
	succeed(w)
}

func (s *reference) refresh(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie("refreshToken")
	if err != nil || len(cookie.Value) != refreshChars {
		fail(w, http.StatusBadRequest)
		return
	}
	token, handle, old, next := successor(cookie.Value)
	var c caller
	var username string
	err = s.db.QueryRow(r.Context(), refreshStatement,
		next[:], refreshTTL, reuseLeeway, handle[:], old[:]).Scan(&c.session, &c.user, &username)
	if err != nil {
		fail(w, http.StatusBadRequest)
		return
	}
	setCookies(w.Header(), sign(uuid.UUID(c.user).String(), uuid.UUID(c.session).String(), username, time.Now(), jwtTTL), token)
	succeed(w)
}

// refreshStatement is what the service runs, without the creation of the session, which it ignores by default.
const refreshStatement = `
	UPDATE sessions SET token_hash = $1, refreshed_at = clock_timestamp(), expires_at = clock_timestamp() + $2::interval, spent = substr(
		substr(token_hash, 1, 6) || substr(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 3)
		|| CASE WHEN refreshed_at > clock_timestamp() - $3::interval THEN spent ELSE '' END, 1, 192)
	WHERE handle_hash = $4 AND token_hash = $5 AND expires_at > clock_timestamp()
	RETURNING id, user_id, (SELECT username FROM users WHERE id = user_id)`

const (
	jwtTTL       = 15 * time.Minute
	refreshTTL   = 720 * time.Hour
	reuseLeeway  = time.Minute
	refreshChars = 128
	handleChars  = 32
)

// successor returns the refresh token that replaces old, and the hashes of their handle, of old and of itself.
func successor(old string) (token string, handle, oldHash, hash [32]byte) {
	random := make([]byte, (refreshChars-handleChars)/2)
	rand.Read(random)
	token = old[:handleChars] + hex.EncodeToString(random)
	return token, sha256.Sum256([]byte(old[:handleChars])), sha256.Sum256([]byte(old)), sha256.Sum256([]byte(token))
}

// setCookies sets the two cookies of a session as the service does.
func setCookies(h http.Header, token, refreshToken string) {
	const attributes = "; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=None"
	h["Set-Cookie"] = []string{"token=" + token + attributes, "refreshToken=" + refreshToken + attributes}
	h["Cache-Control"] = []string{"no-store"}
}

// sign makes a JWT with the header and the claims that the service writes.
func sign(userID, sessionID, username string, now time.Time, ttl time.Duration) string {
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, claims{jwt.RegisteredClaims{
		Subject: userID, ID: uuid.NewString(), IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}, sessionID, username})
	token.Header["kid"] = keyID
	text, err := token.SignedString(jwtKey)
	if err != nil {
		panic(err)
	}
	return text
}
