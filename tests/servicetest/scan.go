package servicetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// secrets are what no response and no log line may hold, whatever the test: what gives away how the service is built or
// where it runs. Keys and the values of cookies are looked for by checkLog.
var secrets = []struct {
	what string
	*regexp.Regexp
}{
	{"SQL", regexp.MustCompile(`(?i)\b(select\b.{1,200}\bfrom|insert into|update \w+ set|delete from|on conflict|returning)\s`)},
	{"a driver's text", regexp.MustCompile(`SQLSTATE|pgconn|pgx|gorm|sqlite3?[_.: (]|modernc|goose|sql: |driver: |dial tcp|unexpected EOF|connection re(fused|set)|broken pipe|violates|constraint failed`)},
	{"a path", regexp.MustCompile(`(^|[\s"'=:(])/(home|root|tmp|usr|var|etc|work|proc|go)/|\.go:\d+`)},
	{"an address", regexp.MustCompile(`\b(127\.0\.0\.1|localhost|\[::1\]):\d+`)},
	{"a stack", regexp.MustCompile(`goroutine \d+|runtime\.|panic:|worldevents/(server|models)`)},
	{"a database's URL", regexp.MustCompile(`postgres(ql)?://|sqlite:`)},
	{"a JWT", regexp.MustCompile(`eyJ[\w-]+\.[\w-]*\.`)},
	{"a refresh token", regexp.MustCompile(`[0-9a-f]{128}`)},
}

// leaks says what of it a text holds, but for what is allowed.
func leaks(text string, allowed ...string) (found []string) {
	for _, secret := range secrets {
		if slices.Contains(allowed, secret.what) {
			continue
		}
		if match := secret.FindString(text); match != "" {
			found = append(found, fmt.Sprintf("%s leaks: %q", secret.what, match))
		}
	}
	return found
}

// leaksInResponse looks through what the service itself says: headers, and bodies of errors. Other bodies are exact, or
// what users wrote. The letters of an ETag are a cipher's: once in some thousand they spell one of these words. Without what is
// different in each, the time and the request's id, responses mostly say what one before them has said.
func leaksInResponse(res *http.Response, body []byte) (found []string) {
	var lines []string
	for name, values := range res.Header {
		switch name {
		case "Set-Cookie", "Etag", "Link", "Location", "Access-Control-Allow-Origin", "Content-Security-Policy", "Date", "X-Request-Id":
		default:
			lines = append(lines, values...)
		}
	}
	if res.StatusCode >= 400 && res.Header.Get("Content-Type") == "application/json" {
		lines = append(lines, strings.ReplaceAll(string(body), res.Header.Get("X-Request-Id"), ""))
	}
	for _, line := range lines {
		if _, ok := faultless.Load(line); !ok {
			if leaking := leaks(line); len(leaking) > 0 {
				found = append(found, leaking...)
			} else {
				faultless.Store(line, nil)
			}
		}
	}
	return found
}

// faultless has values of headers and bodies of errors without secrets.
var faultless sync.Map

// leaksInLog looks through a log. What a fault was belongs there, under the request's id; secrets do not, nor a line
// that somebody else has written: every line is one JSON object with the members that a line has.
func leaksInLog(text string) (found []string) {
	for line := range strings.Lines(text) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry["msg"] == nil || entry["level"] == nil || entry["time"] == nil {
			found = append(found, fmt.Sprintf("not a line of the log: %.200q", line))
		}
		found = append(found, leaks(line, "SQL", "a driver's text", "a path", "an address", "a stack")...)
	}
	return found
}
