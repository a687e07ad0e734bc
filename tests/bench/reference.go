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
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/labstack/echo/v4"
)

// yardstick is net/http and pgx by hand: one statement for each call, JSON straight from the bytes on the wire, and no log, metrics,
// request id, ETag, pages, limits, rules for browsers and hardly any validation. Whatever it refuses is 500.
type yardstick struct {
	db      *pgxpool.Pool
	buffers sync.Pool
}

// serveReference is the life of a process, as that of the service.
func serveReference() {
	config := must(pgxpool.ParseConfig(os.Getenv("DATABASE_URL")))
	config.MinConns, config.MaxConns = poolSize, poolSize
	// All that is asked for stands in an index, in order: planning anew, compiling and sorting can only cost.
	for setting, value := range map[string]string{"jit": "off", "enable_bitmapscan": "off", "enable_sort": "off", "plan_cache_mode": "force_generic_plan"} {
		config.ConnConfig.RuntimeParams[setting] = value
	}
	handler := &yardstick{must(pgxpool.NewWithConfig(context.Background(), config)), sync.Pool{New: func() any { return new([]byte) }}}
	routes := http.NewServeMux()
	routes.Handle("/", handler)
	routes.Handle("/api/auth/session", newEcho())
	public := must(net.Listen("tcp", os.Getenv("LISTEN_ADDR")))
	go http.ListenAndServe(os.Getenv("ADMIN_ADDR"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // ready
	check(http.Serve(public, routes))
}

func (s *yardstick) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	buffer := s.buffers.Get().(*[]byte)
	defer s.buffers.Put(buffer)
	body, err := s.respond(w.Header(), r, (*buffer)[:0])
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	*buffer = body
	w.Header()["Content-Type"] = []string{"application/json"}
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.Write(body)
}

func (s *yardstick) respond(h http.Header, r *http.Request, b []byte) ([]byte, error) {
	success, path := append(b, `{"success":true}`...), r.URL.Path
	if path == "/api/auth/refresh" {
		return success, s.refresh(h, r)
	}
	c, err := authenticated(r)
	if err != nil {
		return nil, err
	}
	last := path[strings.LastIndexByte(path, '/')+1:]
	switch {
	case r.Method == http.MethodGet:
		return s.list(r.Context(), c, last, b)
	case r.Method == http.MethodDelete:
		err = s.change(r.Context(), leaveStatement, c, last)
	case strings.HasPrefix(path, "/api/event/join/"):
		err = s.change(r.Context(), joinStatement, c, last, time.Now())
	default:
		err = s.create(h, r, c, last)
	}
	return success, err
}

// claims are what a JWT says of who sends it.
type claims struct {
	jwt.RegisteredClaims
	SessionID string `json:"sid"`
}

var parser = jwt.NewParser(jwt.WithValidMethods([]string{"HS256"}), jwt.WithExpirationRequired())

// authenticated verifies the JWT in the cookie.
func authenticated(r *http.Request) (c claims, err error) {
	cookie, err := r.Cookie("token")
	if err == nil {
		_, err = parser.ParseWithClaims(cookie.Value, &c, func(*jwt.Token) (any, error) { return jwtKey, nil })
	}
	return c, err
}

// newEcho is the least that an Echo server can do for a session: verify the JWT in the cookie and say so.
func newEcho() http.Handler {
	e := echo.New()
	e.GET("/api/auth/session", func(c echo.Context) error {
		_, err := authenticated(c.Request())
		return c.JSON(http.StatusOK, map[string]bool{"authenticated": err == nil})
	})
	return e
}

// active is a condition of all statements.
const active = "EXISTS (SELECT 1 FROM sessions WHERE id = $1 AND user_id = $2 AND revoked_at IS NULL)"

// listStatement reads one index for the events and one for the RSVPs, an event's usernames as one value.
const listStatement = `
	SELECT e.id, e.name, e.description, e.scheduled_at, (
		SELECT string_agg(username, E'\n') FROM (
			SELECT username FROM rsvps WHERE event_number = e.number ORDER BY created_at, user_number
		) ordered)
	FROM events e WHERE e.world_id = $3 AND ` + active + ` ORDER BY e.scheduled_at, e.id`

func (s *yardstick) list(ctx context.Context, c claims, world string, b []byte) ([]byte, error) {
	rows, err := s.db.Query(ctx, listStatement, c.SessionID, c.Subject, world)
	if err != nil {
		return nil, err
	}
	b = append(b, `{"events":[`...)
	for rows.Next() {
		v := rows.RawValues()
		const year2000 = 946684800e6 // in microseconds since 1970
		at := time.UnixMicro(int64(binary.BigEndian.Uint64(v[3])) + year2000).UTC()
		b = append(appendEvent(b, uuid.UUID(v[0]).String(), v[1], v[2], at, v[4]), ',')
	}
	return append(bytes.TrimSuffix(b, []byte(",")), "]}"...), rows.Err()
}

// appendEvent is an event of a list as the service writes it.
func appendEvent(b []byte, id string, name, description []byte, at time.Time, usernames []byte) []byte {
	b = append(append(append(b, `{"id":"`...), id...), `","name":`...)
	b, _ = jsontext.AppendQuote(b, name)
	b, _ = jsontext.AppendQuote(append(b, `,"description":`...), description)
	b = at.AppendFormat(append(b, `,"scheduledAt":"`...), "2006-01-02T15:04:05.000Z")
	b = append(b, `","RSVPs":[`...)
	if len(usernames) > 0 { // of which none needs an escape here
		b = append(append(b, `{"user":{"username":"`...), bytes.ReplaceAll(usernames, []byte("\n"), []byte(`"}},{"user":{"username":"`))...)
		b = append(b, `"}}`...)
	}
	return append(b, "]}"...)
}

const (
	joinStatement = `
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT coalesce((SELECT number FROM events WHERE id = $3), 0), $4, number, username FROM users
		WHERE id = $2 AND ` + active + ` ON CONFLICT DO NOTHING`
	leaveStatement = `
		DELETE FROM rsvps WHERE event_number = (SELECT number FROM events WHERE id = $3)
		AND user_number = (SELECT number FROM users WHERE id = $2) AND ` + active
	createStatement = `
		WITH creator AS (
			SELECT number, id, username FROM users WHERE id = $2 AND ` + active + `
		), event AS (
			INSERT INTO events (id, world_id, creator_id, name, description, scheduled_at, created_at)
			SELECT $3, $4, id, $5, $6, $7, $8 FROM creator
			RETURNING number
		)
		INSERT INTO rsvps (event_number, created_at, user_number, username)
		SELECT event.number, $8, creator.number, username FROM event, creator`
)

// change runs a statement that changes one row of an event, unless it was so already.
func (s *yardstick) change(ctx context.Context, statement string, c claims, event string, more ...any) error {
	tag, err := s.db.Exec(ctx, statement, append([]any{c.SessionID, c.Subject, event}, more...)...)
	if err != nil || tag.RowsAffected() > 0 {
		return err
	}
	var is bool
	err = s.db.QueryRow(ctx, "SELECT "+active+" AND EXISTS (SELECT 1 FROM events WHERE id = $3)", c.SessionID, c.Subject, event).Scan(&is)
	if err == nil && !is {
		err = errors.New("no such session or event")
	}
	return err
}

func (s *yardstick) create(h http.Header, r *http.Request, c claims, world string) error {
	var body struct {
		Name, Description string
		ScheduledAt       time.Time
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return err
	}
	id := uuid.Must(uuid.NewV7()).String()
	h["Event-Id"] = []string{id}
	return s.change(r.Context(), createStatement, c, id, world, body.Name, body.Description, body.ScheduledAt.UTC().Truncate(time.Millisecond), time.Now())
}

// refreshStatement is what the service runs, without the creation of the session, which it ignores by default.
const refreshStatement = `
	UPDATE sessions SET token_hash = $1, refreshed_at = clock_timestamp(), expires_at = clock_timestamp() + $2::interval, spent = substr(
		substr(token_hash, 1, 6) || substr(int8send((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 3)
		|| CASE WHEN refreshed_at > clock_timestamp() - $3::interval THEN spent ELSE '' END, 1, 192)
	WHERE handle_hash = $4 AND token_hash = $5 AND expires_at > clock_timestamp()
	RETURNING id, user_id, (SELECT username FROM users WHERE id = user_id)`

func (s *yardstick) refresh(h http.Header, r *http.Request) error {
	cookie, err := r.Cookie("refreshToken")
	if err != nil {
		return err
	}
	random := make([]byte, 48)
	rand.Read(random)
	old := []byte(cookie.Value)
	handle := old[:min(32, len(old))]
	token := hex.AppendEncode(bytes.Clone(handle), random)
	next, of, spent := sha256.Sum256(token), sha256.Sum256(handle), sha256.Sum256(old)
	var session, user, username string
	err = s.db.QueryRow(r.Context(), refreshStatement, next[:], 720*time.Hour, time.Minute, of[:], spent[:]).Scan(&session, &user, &username)
	const attributes = "; Path=/; Max-Age=2592000; HttpOnly; Secure; SameSite=None"
	h["Set-Cookie"] = []string{"token=" + sign(user, session, username, 15*time.Minute) + attributes, "refreshToken=" + string(token) + attributes}
	h["Cache-Control"] = []string{"no-store"}
	return err
}
