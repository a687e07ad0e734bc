package eventlist

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"worldevents/models"
)

// A cursor is a position (8 bytes of milliseconds, 16 of id), and 8 bytes of a digest with its world.
const (
	positionBytes = 8 + 16
	cursorBytes   = positionBytes + 8
)

var strictBase64 = base64.RawURLEncoding.Strict()

func WriteCursor(world string, position models.Position) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorBytes), uint64(position.ScheduledAt.UnixMilli()))
	b = append(b, position.ID[:]...)
	return strictBase64.EncodeToString(append(b, cursorDigest(world, b)...))
}

// ReadCursor returns false for other texts than those of WriteCursor for this world.
func ReadCursor(world, text string) (models.Position, bool) {
	if len(text) != strictBase64.EncodedLen(cursorBytes) { // the decoder would skip line breaks
		return models.Position{}, false
	}
	b, err := strictBase64.DecodeString(text)
	if err != nil || len(b) != cursorBytes || string(b[positionBytes:]) != string(cursorDigest(world, b[:positionBytes])) {
		return models.Position{}, false
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC()
	if at.Year() < 1970 || at.Year() > 9999 { // the digest is no secret, and a database need not know every year
		return models.Position{}, false
	}
	return models.Position{ScheduledAt: at, ID: models.ID(b[8:])}, true
}

func cursorDigest(world string, position []byte) []byte {
	sum := sha256.Sum256(append([]byte(world+"\x00"), position...))
	return sum[:cursorBytes-positionBytes]
}
