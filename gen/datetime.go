package gen

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// DateTime is the contract's date-time: read as RFC 3339 with Z or a numeric offset of at most 14:00, the instant in
// UTC within the years 1970 to 9999; written in UTC, always with milliseconds, as JavaScript's toISOString does.
type DateTime time.Time

var errDateTime = errors.New("not an RFC 3339 date-time within the years 1970 to 9999")

// RFC 3339 section 5.6. Go's own parser also takes one-digit hours, a comma, and offsets beyond a day.
var dateTime = regexp.MustCompile(`^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))$`)

const dateTimeLayout = "2006-01-02T15:04:05.000Z"

// ParseDateTime reads s. Digits beyond the nanosecond are kept as one nanosecond if any of them is not zero, so that
// rounding up to a millisecond sees them.
func ParseDateTime(s string) (DateTime, error) {
	if isCommon(s) { // then Go's own parser reads the same, ten times as fast
		t, err := time.Parse(time.RFC3339, s)
		if err != nil || t.Year() < 1970 {
			return DateTime{}, errDateTime
		}
		return DateTime(t), nil
	}
	return parseAnyDateTime(s)
}

// isCommon reports whether s is spelled as most clients do: as toISOString, or the same without milliseconds.
func isCommon(s string) bool {
	return len(s) == len("2006-01-02T15:04:05Z") && s[10] == 'T' && s[19] == 'Z' ||
		len(s) == len(dateTimeLayout) && s[10] == 'T' && s[19] == '.' && s[23] == 'Z'
}

// parseAnyDateTime is ParseDateTime for every spelling.
func parseAnyDateTime(s string) (DateTime, error) {
	m := dateTime.FindStringSubmatch(s)
	if m == nil {
		return DateTime{}, errDateTime
	}
	t, err := time.Parse("2006-01-02 15:04:05", m[1]+" "+m[2])
	if err != nil {
		return DateTime{}, errDateTime
	}
	if fraction := m[3]; fraction != "" {
		digits := (fraction + "00000000")[:9]
		nanos, _ := strconv.Atoi(digits)
		if len(fraction) > 9 && nanos%int(time.Millisecond) == 0 && strings.Trim(fraction[9:], "0") != "" {
			nanos++
		}
		t = t.Add(time.Duration(nanos))
	}
	if m[4] != "" {
		hours, _ := strconv.Atoi(m[5])
		minutes, _ := strconv.Atoi(m[6])
		offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
		if minutes > 59 || offset > 14*time.Hour {
			return DateTime{}, errDateTime
		}
		if m[4] == "+" {
			offset = -offset
		}
		t = t.Add(offset)
	}
	if t.Year() < 1970 || t.Year() > 9999 {
		return DateTime{}, errDateTime
	}
	return DateTime(t), nil
}

// Time returns the instant in UTC.
func (d DateTime) Time() time.Time { return time.Time(d).UTC() }

func (d DateTime) String() string {
	text, _ := d.AppendText(nil)
	return string(text)
}

// AppendText implements encoding.TextAppender. Lists are full of these, and time.AppendFormat reads its layout again for
// each.
func (d DateTime) AppendText(b []byte) ([]byte, error) {
	t := d.Time()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	if year < 0 || year > 9999 {
		return t.AppendFormat(b, dateTimeLayout), nil
	}
	two := func(n int, after byte) { b = append(b, '0'+byte(n/10), '0'+byte(n%10), after) }
	b = append(b, '0'+byte(year/1000), '0'+byte(year/100%10))
	two(year%100, '-')
	two(int(month), '-')
	two(day, 'T')
	two(hour, ':')
	two(minute, ':')
	two(second, '.')
	millis := t.Nanosecond() / int(time.Millisecond)
	b = append(b, '0'+byte(millis/100))
	two(millis%100, 'Z')
	return b, nil
}

// MarshalText implements encoding.TextMarshaler.
func (d DateTime) MarshalText() ([]byte, error) { return d.AppendText(nil) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *DateTime) UnmarshalText(text []byte) (err error) {
	*d, err = ParseDateTime(string(text))
	return err
}

// Bind reads a query parameter. Without it the generated code would read it as Go's time.Time.
func (d *DateTime) Bind(text string) error { return d.UnmarshalText([]byte(text)) }
