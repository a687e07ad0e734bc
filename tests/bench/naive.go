package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// naive is what most people would write: GORM models with associations, Preload, First before Create, a transaction
// around each write, and encoding/json. It has the same tables and indices.
type naive struct{ db *gorm.DB }

type (
	naiveUser struct {
		Number   int32 `gorm:"primaryKey"`
		ID       string
		Username string
	}
	naiveSession struct {
		ID          string `gorm:"primaryKey"`
		UserID      string
		User        naiveUser `gorm:"references:ID"`
		HandleHash  []byte
		TokenHash   []byte
		RefreshedAt time.Time
		ExpiresAt   time.Time
		RevokedAt   *time.Time
	}
	naiveEvent struct {
		Number      int64 `gorm:"primaryKey"`
		ID          string
		WorldID     string
		CreatorID   string
		Name        string
		Description string
		ScheduledAt time.Time
		CreatedAt   time.Time
		RSVPs       []naiveRSVP `gorm:"foreignKey:EventNumber"`
	}
	naiveRSVP struct {
		EventNumber int64 `gorm:"primaryKey;autoIncrement:false"`
		UserNumber  int32 `gorm:"primaryKey;autoIncrement:false"`
		Username    string
		CreatedAt   time.Time
		User        naiveUser `gorm:"foreignKey:UserNumber"`
	}
)

func (naiveUser) TableName() string    { return "users" }
func (naiveSession) TableName() string { return "sessions" }
func (naiveEvent) TableName() string   { return "events" }
func (naiveRSVP) TableName() string    { return "rsvps" }

// What goes over the wire.
type (
	wireList struct {
		Events []wireEvent `json:"events"`
	}
	wireEvent struct {
		ID          string     `json:"id"`
		Name        string     `json:"name"`
		Description string     `json:"description"`
		ScheduledAt string     `json:"scheduledAt"`
		RSVPs       []wireRSVP `json:"RSVPs"`
	}
	wireRSVP struct {
		User wireUser `json:"user"`
	}
	wireUser struct {
		Username string `json:"username"`
	}
	wireSuccess struct {
		Success bool `json:"success"`
	}
)

func newNaive(url string) (http.Handler, error) {
	db, err := gorm.Open(postgres.Open(url), &gorm.Config{TranslateError: true, Logger: logger.Discard})
	if err != nil {
		return nil, err
	}
	pool, err := db.DB()
	if err != nil {
		return nil, err
	}
	pool.SetMaxOpenConns(poolSize)
	pool.SetMaxIdleConns(poolSize)
	s := &naive{db}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/event/{id}", s.asUser(s.list))
	mux.HandleFunc("POST /api/event/{id}", s.asUser(s.create))
	mux.HandleFunc("POST /api/event/join/{id}", s.asUser(s.join))
	mux.HandleFunc("DELETE /api/event/{id}", s.asUser(s.leave))
	mux.HandleFunc("GET /api/auth/refresh", s.refresh)
	return mux, nil
}

// asUser lets a request pass whose JWT names a session that is not revoked.
func (s *naive) asUser(next func(http.ResponseWriter, *http.Request, naiveUser)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, ok := authenticated(r)
		var session naiveSession
		if !ok || s.db.WithContext(r.Context()).Preload("User").First(&session, "id = ? AND user_id = ? AND revoked_at IS NULL",
			uuid.UUID(c.session).String(), uuid.UUID(c.user).String()).Error != nil {
			fail(w, http.StatusUnauthorized)
			return
		}
		next(w, r, session.User)
	}
}

func reply(w http.ResponseWriter, v any, err error) {
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		fail(w, http.StatusNotFound)
	case err != nil:
		fail(w, http.StatusInternalServerError)
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(v)
	}
}

func (s *naive) list(w http.ResponseWriter, r *http.Request, _ naiveUser) {
	var events []naiveEvent
	err := s.db.WithContext(r.Context()).
		Preload("RSVPs", func(db *gorm.DB) *gorm.DB { return db.Order("created_at, user_number") }).
		Preload("RSVPs.User").
		Where("world_id = ?", r.PathValue("id")).Order("scheduled_at, id").Find(&events).Error
	list := wireList{Events: []wireEvent{}}
	for _, e := range events {
		event := wireEvent{e.ID, e.Name, e.Description, e.ScheduledAt.UTC().Format("2006-01-02T15:04:05.000Z"), []wireRSVP{}}
		for _, rsvp := range e.RSVPs {
			event.RSVPs = append(event.RSVPs, wireRSVP{wireUser{rsvp.User.Username}})
		}
		list.Events = append(list.Events, event)
	}
	reply(w, list, err)
}

func (s *naive) create(w http.ResponseWriter, r *http.Request, user naiveUser) {
	var body createBody
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Name == "" {
		fail(w, http.StatusBadRequest)
		return
	}
	event := naiveEvent{
		ID: uuid.NewString(), WorldID: r.PathValue("id"), CreatorID: user.ID,
		Name: body.Name, Description: body.Description, ScheduledAt: body.ScheduledAt,
		RSVPs: []naiveRSVP{{UserNumber: user.Number, Username: user.Username}},
	}
	err := s.db.WithContext(r.Context()).Create(&event).Error
	w.Header().Set("Event-Id", event.ID)
	reply(w, wireSuccess{true}, err)
}

func (s *naive) join(w http.ResponseWriter, r *http.Request, user naiveUser) {
	db := s.db.WithContext(r.Context())
	var event naiveEvent
	err := db.First(&event, "id = ?", r.PathValue("id")).Error
	if err == nil {
		err = db.Omit("User").Create(&naiveRSVP{EventNumber: event.Number, UserNumber: user.Number, Username: user.Username}).Error
	}
	if errors.Is(err, gorm.ErrDuplicatedKey) {
		err = nil
	}
	reply(w, wireSuccess{true}, err)
}

func (s *naive) leave(w http.ResponseWriter, r *http.Request, user naiveUser) {
	db := s.db.WithContext(r.Context())
	var event naiveEvent
	err := db.First(&event, "id = ?", r.PathValue("id")).Error
	if err == nil {
		err = db.Delete(&naiveRSVP{}, "event_number = ? AND user_number = ?", event.Number, user.Number).Error
	}
	reply(w, wireSuccess{true}, err)
}

func (s *naive) refresh(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie("refreshToken")
	if err != nil || len(cookie.Value) != refreshChars {
		fail(w, http.StatusBadRequest)
		return
	}
	db := s.db.WithContext(r.Context())
	token, handle, old, next := successor(cookie.Value)
	now := time.Now()
	var session naiveSession
	err = db.Preload("User").First(&session, "handle_hash = ? AND token_hash = ? AND expires_at > ?", handle[:], old[:], now).Error
	if err != nil {
		fail(w, http.StatusBadRequest)
		return
	}
	err = db.Model(&session).Omit("User").Updates(naiveSession{TokenHash: next[:], RefreshedAt: now, ExpiresAt: now.Add(refreshTTL)}).Error
	if err == nil {
		setCookies(w.Header(), sign(session.UserID, session.ID, session.User.Username, now, jwtTTL), token)
	}
	reply(w, wireSuccess{true}, err)
}
