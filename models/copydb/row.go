package copydb

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"worldevents/models"
	"worldevents/models/internal/postgres"
)

// copyRow is a row on its way between databases. Each value is in PostgreSQL's binary format; nil is NULL. A
// row from PostgreSQL to PostgreSQL is therefore never decoded.
type copyRow [][]byte

// copyColumn is a column that is copied.
type copyColumn struct {
	name string
	kind copyKind
}

// columnList lists columns in SQL.
func columnList(columns []copyColumn) string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.name // of our own schema, which needs no quotes
	}
	return strings.Join(names, ", ")
}

// copyKind is what a column holds. Each kind of PostgreSQL comes before the kind in which SQLite keeps the
// same: an integer before a bigint, a UUID before a text. So the smaller of two kinds is PostgreSQL's, which
// says more.
type copyKind int

const (
	kindInteger copyKind = iota // 32 bits
	kindBigint
	kindUUID
	kindText
	kindTime
	kindBytes
)

// postgresKinds are the kinds by PostgreSQL's names of types.
var postgresKinds = map[string]copyKind{
	"integer": kindInteger, "bigint": kindBigint, "uuid": kindUUID, "text": kindText,
	"timestamp with time zone": kindTime, "bytea": kindBytes,
}

// sqliteKinds are the kinds by the types that SQLite's migrations declare.
var sqliteKinds = map[string]copyKind{"INTEGER": kindBigint, "TEXT": kindText, "DATETIME": kindTime, "BLOB": kindBytes}

func kindOf(kinds map[string]copyKind, table, column, declared string) (copyColumn, error) {
	kind, ok := kinds[declared]
	if !ok {
		return copyColumn{}, fmt.Errorf("%s.%s is of the type %q, which cannot be copied", table, column, declared)
	}
	return copyColumn{column, kind}, nil
}

// appendCanonical appends a text of the row that is the same for both databases and differs for any other row.
// Each value has its length in front, so that no two rows give the same text by values that run into each
// other.
func (r copyRow) appendCanonical(b []byte, columns []copyColumn) []byte {
	for i, value := range r {
		if value == nil {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		switch columns[i].kind {
		case kindInteger:
			b = binary.BigEndian.AppendUint32(b, 8)
			b = binary.BigEndian.AppendUint64(b, uint64(int64(int32(binary.BigEndian.Uint32(value)))))
		case kindUUID:
			b = binary.BigEndian.AppendUint32(b, 36)
			b, _ = models.ID(value).AppendText(b)
		default:
			b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
			b = append(b, value...)
		}
	}
	return b
}

// PostgreSQL cannot keep these, or SQLite should not have them: SQLite lets any column hold any type.
var (
	errNotInteger = errors.New("is no integer of the column's size")
	errNotText    = errors.New("is no text")
	errNUL        = errors.New("has a NUL, which PostgreSQL cannot keep")
	errNotUTF8    = errors.New("is not UTF-8, which PostgreSQL needs")
	errNotUUID    = errors.New("is no UUID")
	errNotTime    = errors.New("is no time of the years 1 to 9999")
	errNotBytes   = errors.New("is not of the type of bytes")
)

// encode appends a value, as SQLite returns it, in PostgreSQL's binary format.
func (k copyKind) encode(b []byte, value any) ([]byte, error) {
	switch k {
	case kindInteger:
		n, ok := value.(int64)
		if !ok || n < math.MinInt32 || n > math.MaxInt32 {
			return b, errNotInteger
		}
		return binary.BigEndian.AppendUint32(b, uint32(n)), nil
	case kindBigint:
		n, ok := value.(int64)
		if !ok {
			return b, errNotInteger
		}
		return binary.BigEndian.AppendUint64(b, uint64(n)), nil
	case kindUUID:
		text, ok := value.(string)
		digits, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
		if !ok || err != nil || len(digits) != len(models.ID{}) || models.ID(digits).String() != text {
			return b, errNotUUID
		}
		return append(b, digits...), nil
	case kindText:
		text, ok := value.(string)
		switch {
		case !ok:
			return b, errNotText
		case strings.IndexByte(text, 0) >= 0:
			return b, errNUL
		case !utf8.ValidString(text):
			return b, errNotUTF8
		}
		return append(b, text...), nil
	case kindTime:
		t, ok := value.(time.Time)
		if !ok || t.UTC().Year() < 1 || t.UTC().Year() > 9999 {
			return b, errNotTime
		}
		return binary.BigEndian.AppendUint64(b, uint64(t.UnixMicro()-postgres.Epoch)), nil
	}
	content, ok := value.([]byte)
	if !ok {
		return b, errNotBytes
	}
	return append(b, content...), nil
}

// encodeAny is encode for a value that stays in SQLite, where it may be anything. It is only compared, so a
// text that shows type and value will do.
func (k copyKind) encodeAny(b []byte, value any) []byte {
	encoded, err := k.encode(b, value)
	if err != nil {
		return fmt.Appendf(b, "%T %v", value, value)
	}
	return encoded
}

// decode returns a value of PostgreSQL as a parameter for SQLite.
func (k copyKind) decode(value []byte) (any, error) {
	if value == nil {
		return nil, nil
	}
	switch k {
	case kindInteger:
		return int64(int32(binary.BigEndian.Uint32(value))), nil
	case kindBigint:
		return int64(binary.BigEndian.Uint64(value)), nil
	case kindUUID:
		return models.ID(value).String(), nil
	case kindText:
		return string(value), nil
	case kindTime:
		micros := int64(binary.BigEndian.Uint64(value))
		if micros == math.MaxInt64 || micros == math.MinInt64 { // infinity
			return nil, errNotTime
		}
		t := time.UnixMicro(postgres.Epoch + micros).UTC()
		if t.Year() < 1 || t.Year() > 9999 {
			return nil, errNotTime
		}
		return t, nil
	}
	return bytes.Clone(value), nil
}

// copySignature begins the data of a COPY in the binary format (PostgreSQL, "COPY", "Binary Format"): a
// signature, flags, and the length of an extension, both 0.
const copySignature = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"

// copyTrailer ends the data: a row of -1 columns.
const copyTrailer = "\xff\xff"

// append appends the row in the form of a COPY: the number of columns, then for each the length, -1 for NULL,
// and the bytes.
func (r copyRow) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(r)))
	for _, value := range r {
		if value == nil {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(value)))
		b = append(b, value...)
	}
	return b
}

// copyParser reads the data of a COPY as the connection writes it (io.Writer), and calls each with its rows.
// The data comes in pieces that end anywhere.
type copyParser struct {
	each  func(copyRow) error
	begun bool
	rest  []byte // the beginning of a row whose end has not come yet
	row   copyRow
}

// Write implements io.Writer.
func (p *copyParser) Write(data []byte) (int, error) {
	n := len(data)
	if len(p.rest) > 0 {
		p.rest = append(p.rest, data...)
		data = p.rest
	}
	if !p.begun {
		if len(data) < len(copySignature) {
			p.rest = append(p.rest[:0], data...)
			return n, nil
		}
		if string(data[:len(copySignature)]) != copySignature {
			return 0, errors.New("the server's COPY is of an unknown format")
		}
		p.begun, data = true, data[len(copySignature):]
	}
	for {
		size, ok := p.parse(data)
		if !ok {
			break
		}
		if size > 2 { // otherwise it is the trailer, a row without columns
			if err := p.each(p.row); err != nil {
				return 0, err
			}
		}
		data = data[size:]
	}
	p.rest = append(p.rest[:0], data...)
	return n, nil
}

// parse reads a row into p.row, without copying it. ok is false if data ends within the row.
func (p *copyParser) parse(data []byte) (size int, ok bool) {
	if len(data) < 2 {
		return 0, false
	}
	fields, size := int16(binary.BigEndian.Uint16(data)), 2
	p.row = p.row[:0]
	for range max(fields, 0) {
		if len(data) < size+4 {
			return 0, false
		}
		length := int(int32(binary.BigEndian.Uint32(data[size:])))
		size += 4
		if length < 0 {
			p.row = append(p.row, nil)
			continue
		}
		if len(data) < size+length {
			return 0, false
		}
		p.row = append(p.row, data[size:size+length:size+length])
		size += length
	}
	return size, true
}
