package worlds

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// maxTTL bounds how long an answer counts; a yes without max-age counts as long.
	maxTTL = time.Minute
	// noTTL is for a no without max-age.
	noTTL = 5 * time.Second
	// maxStale bounds how long a yes outlives a failure.
	maxStale = 10 * time.Minute
)

// answer is yes, or an error. It counts until then; during a failure of the owner it counts until stale.
type answer struct {
	err          error
	until, stale time.Time
}

// readAnswer returns an error for a response that is neither yes nor no.
func readAnswer(res *http.Response, now time.Time) (a answer, err error) {
	ttl := maxTTL
	switch status := res.StatusCode; {
	case status >= 200 && status <= 299:
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusNotFound:
		a.err, ttl = ErrForbidden, noTTL
	default:
		return a, fmt.Errorf("HTTP status %d", status)
	}
	control := make(map[string]time.Duration) // directives (RFC 9111 section 5.2), with 0 for one that is no number of seconds
	for directive := range strings.SplitSeq(strings.Join(res.Header.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(directive)), "=")
		seconds, _ := strconv.ParseUint(strings.Trim(value, `"`), 10, 31) // the largest, if there are more (RFC 9111 section 1.2.2)
		control[name] = time.Duration(seconds) * time.Second
	}
	if age, ok := control["max-age"]; ok {
		ttl = min(age, maxTTL)
	}
	for _, name := range []string{"no-store", "no-cache"} {
		if _, ok := control[name]; ok {
			ttl = 0
		}
	}
	a.until = now.Add(ttl - rand.N(ttl/5+1)) // or answers that came together would end together
	if a.err == nil {
		a.stale = a.until.Add(min(control["stale-if-error"], maxStale))
	}
	return a, nil
}
