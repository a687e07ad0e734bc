package gen

import (
	"errors"
	"strings"
	"time"
)

// DateTime is the contract's date-time: read as RFC 3339 with Z or a numeric offset of at most 14:00, the instant in
// UTC within the years 1970 to 9999; written in UTC, always with milliseconds, as JavaScript's toISOString does.
type DateTime time.Time

var errDateTime = errors.New("not an RFC 3339 date-time within the years 1970 to 9999")

const dateTimeLayout = "2006-01-02T15:04:05.000Z"

// ParseDateTime reads s. Digits beyond the nanosecond are kept as one nanosecond if any of them is not zero, so that
// rounding up to a millisecond sees them.
func ParseDateTime(s string) (DateTime, error) {
	const date, second, nanosecond = len("2006-01-02"), len("2006-01-02T15:04:05"), len("2006-01-02T15:04:05.000000000")
	if strings.HasSuffix(s, "z") || len(s) > date && s[date] == 't' {
		s = strings.ToUpper(s)
	}
	// Go's parser is looser than RFC 3339 section 5.6: it also takes one-digit hours, a comma, and offsets beyond a day.
	if len(s) <= second || s[second] != 'Z' && s[second] != '.' && s[second] != '+' && s[second] != '-' {
		return DateTime{}, errDateTime
	}
	zone := len(s) - len("Z")
	if s[zone] != 'Z' {
		zone = len(s) - len("+00:00")
		if offset := s[zone+1:]; offset > "14:00" || offset[3:] > "59" {
			return DateTime{}, errDateTime
		}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return DateTime{}, errDateTime
	}
	if zone > nanosecond && t.Nanosecond()%int(time.Millisecond) == 0 && strings.Trim(s[nanosecond:zone], "0") != "" {
		t = t.Add(time.Nanosecond)
	}
	t = t.UTC()
	if year := t.Year(); year < 1970 || year > 9999 {
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
