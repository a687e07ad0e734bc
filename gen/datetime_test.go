package gen

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What most clients write is read by Go's parser, all else by our own. No text is read otherwise by one of them than by
// the other: texts of that form with one to three characters replaced show it.
func TestDateTimeParsersAgree(t *testing.T) {
	const alphabet = "0123456789-:.,+TtZz "
	read, refused := 0, 0
	for _, seed := range []string{"2030-01-02T03:04:05.000Z", "1970-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z", "2028-02-29T12:30:10.500Z", "1969-12-31T23:59:59.999Z",
		"2030-01-02T03:04:05Z", "2028-02-29T23:59:59Z", "1970-01-01T00:00:00Z"} {
		for range 15_000 {
			text := []byte(seed)
			for range rand.IntN(4) {
				text[rand.IntN(len(text))] = alphabet[rand.IntN(len(alphabet))]
			}
			got, err := ParseDateTime(string(text))
			want, wantErr := parseAnyDateTime(string(text))
			if (err == nil) != (wantErr == nil) || got != want {
				t.Fatalf("%s is %v, %v, and by the other parser %v, %v", text, got, err, want, wantErr)
			}
			if err == nil {
				read++
			} else {
				refused++
			}
		}
	}
	if read < 1_500 || refused < 1_500 {
		t.Errorf("%d read and %d refused say too little", read, refused)
	}
}

func BenchmarkParseDateTime(b *testing.B) {
	for name, parse := range map[string]func(string) (DateTime, error){"common": ParseDateTime, "any": parseAnyDateTime} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				parse("2030-01-02T03:04:05.000Z")
			}
		})
	}
}

// What is written by hand is what Go writes.
func TestDateTimeText(t *testing.T) {
	for range 20_000 {
		at := time.UnixMicro(rand.Int64N(253402300800e6)).In(time.FixedZone("", rand.IntN(28*3600)-14*3600))
		if got, want := DateTime(at).String(), at.UTC().Format(dateTimeLayout); got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}
