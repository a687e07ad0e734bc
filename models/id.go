package models

import (
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"gorm.io/gorm"
	"gorm.io/gorm/schema"
)

// ID is the UUID (RFC 9562) of a user, an event or a session. The zero ID names nothing, and sorts before every other.
type ID [16]byte

var errID = errors.New("not an id, which is a UUID in lower case")

// ParseID reads an id in the one form in which this service writes ids: lower case with hyphens (RFC 9562 section 4). It refuses other
// spellings, because clients compare texts, and the zero ID. With the error it returns the zero ID.
func ParseID(text string) (ID, error) {
	u, err := uuid.Parse(text)
	if id := ID(u); err == nil && !id.IsZero() {
		var buf [36]byte
		if ours, _ := id.AppendText(buf[:0]); string(ours) == text {
			return id, nil
		}
	}
	return ID{}, errID
}

// newID makes a UUIDv7 (RFC 9562 section 5.7). It begins with the time, so new rows go to the end of their index.
func newID() ID { return ID(uuid.Must(uuid.NewV7())) } // fails only without randomness, and crypto/rand then ends the process

func (id ID) IsZero() bool { return id == ID{} }

func (id ID) String() string { return uuid.UUID(id).String() }

// AppendText is String without an allocation. It never fails.
func (id ID) AppendText(b []byte) ([]byte, error) {
	b = append(hex.AppendEncode(b, id[:4]), '-')
	b = append(hex.AppendEncode(b, id[4:6]), '-')
	b = append(hex.AppendEncode(b, id[6:8]), '-')
	b = append(hex.AppendEncode(b, id[8:10]), '-')
	return hex.AppendEncode(b, id[10:]), nil
}

func (id ID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

func (id ID) Value() (driver.Value, error) { return id.String(), nil }

// Scan implements sql.Scanner for text. NULL is the zero ID.
func (id *ID) Scan(value any) (err error) {
	switch text := value.(type) {
	case nil:
		*id = ID{}
	case string:
		*id, err = ParseID(text)
	case []byte:
		*id, err = ParseID(string(text))
	default:
		err = fmt.Errorf("scan %T: %w", value, errID)
	}
	return err
}

// UUIDValue implements pgtype.UUIDValuer: PostgreSQL takes the 16 bytes.
func (id ID) UUIDValue() (pgtype.UUID, error) { return pgtype.UUID{Bytes: id, Valid: true}, nil }

// ScanUUID implements pgtype.UUIDScanner. NULL is the zero ID.
func (id *ID) ScanUUID(u pgtype.UUID) error {
	*id = u.Bytes
	return nil
}

// GormDBDataType is the type of an id's column.
func (ID) GormDBDataType(db *gorm.DB, _ *schema.Field) string {
	if db.Name() == "postgres" {
		return "uuid"
	}
	return "text"
}

// idOf stands for a user or an event in Store.locking, as it does in writes.
func idOf(id ID) string { return string(id[:]) }
