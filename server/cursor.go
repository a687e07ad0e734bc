package server

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/google/uuid"

	"worldevents/models"
)

// A cursor is a place (8 bytes of milliseconds, 16 of id) and 8 bytes of a digest that tie it to its world.
const (
	placeBytes  = 8 + 16
	cursorBytes = placeBytes + 8
)

var strictBase64 = base64.RawURLEncoding.Strict()

func writeCursor(world string, place models.Place) string {
	id := uuid.MustParse(place.ID)
	b := binary.BigEndian.AppendUint64(make([]byte, 0, cursorBytes), uint64(place.ScheduledAt.UnixMilli()))
	b = append(b, id[:]...)
	return strictBase64.EncodeToString(append(b, cursorDigest(world, b)...))
}

// readCursor is false for what writeCursor has not made for this world.
func readCursor(world, text string) (models.Place, bool) {
	if len(text) != strictBase64.EncodedLen(cursorBytes) { // the decoder would skip line breaks
		return models.Place{}, false
	}
	b, err := strictBase64.DecodeString(text)
	if err != nil || len(b) != cursorBytes || string(b[placeBytes:]) != string(cursorDigest(world, b[:placeBytes])) {
		return models.Place{}, false
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(b))).UTC()
	return models.Place{ScheduledAt: at, ID: uuid.UUID(b[8:placeBytes]).String()}, true
}

func cursorDigest(world string, place []byte) []byte {
	sum := sha256.Sum256(append([]byte(world+"\x00"), place...))
	return sum[:cursorBytes-placeBytes]
}
