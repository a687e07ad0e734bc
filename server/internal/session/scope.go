package session

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// scope identifies a cookie besides its name: a browser keeps one for each (RFC 6265bis section 5.7, and CHIPS for partitioned).
type scope struct {
	domain      string // empty for a host-only cookie
	path        string
	partitioned bool
}

// differences counts the settings that differ.
func (s scope) differences(other scope) (n int) {
	for _, same := range []bool{s.domain == other.domain, s.path == other.path, s.partitioned == other.partitioned} {
		if !same {
			n++
		}
	}
	return n
}

// cookie returns a cookie without a value. A negative maxAge expires it.
func (s scope) cookie(development bool, maxAge int) *http.Cookie {
	cookie := &http.Cookie{
		Name: tokenCookie, Path: s.path, Domain: s.domain, MaxAge: maxAge,
		HttpOnly: true, Secure: !development, SameSite: http.SameSiteNoneMode, Partitioned: s.partitioned,
	}
	if development {
		cookie.SameSite = http.SameSiteLaxMode
	}
	return cookie
}

// attributes returns the part of a cookie after its value, for the hot path of a refresh.
func attributes(c *http.Cookie) string { return strings.TrimPrefix(c.String(), tokenCookie+"=") }

// liveScope is the scope of this configuration.
func liveScope(o Options) scope {
	return scope{strings.ToLower(strings.TrimPrefix(o.CookieDomain, ".")), o.CookiePath, o.CookiePartitioned}
}

const (
	// maxStaleScopes bounds a response to 16 cookies: two for each, the two live ones, and one of a sign-in at the provider.
	maxStaleScopes = 6
	// maxStaleBytes bounds the cookies of a response to 3 KB, with the live ones of the longest username.
	maxStaleBytes = 1536
)

// staleAttributes expires the cookies of earlier configurations, in the likeliest scopes but the live one. Operators change one setting at
// a time, so scopes with the fewest differences come first, and of these changes of the domain, then of the path, then of Partitioned.
func staleAttributes(o Options) (all []string) {
	size := 0
	for _, s := range staleScopes(o) {
		cookie := s.cookie(o.Development, -1)
		if cookie.Valid() != nil { // without an attribute it would be of another scope
			continue
		}
		text := attributes(cookie)
		size += len(tokenCookie) + len(refreshCookie) + 2*len("="+text)
		if len(all) == maxStaleScopes || size > maxStaleBytes {
			break
		}
		all = append(all, text)
	}
	return all
}

// staleScopes returns all scopes of earlier configurations, the likeliest first.
func staleScopes(o Options) (all []scope) {
	live := liveScope(o)
	partitions := []bool{live.partitioned, !live.partitioned}
	if o.Development { // Partitioned needs Secure
		partitions = []bool{false}
	}
	for _, partitioned := range partitions {
		for _, path := range []string{live.path, "/"} {
			for _, domain := range cookieDomains(o.Host, live.domain) {
				if s := (scope{domain, path, partitioned}); s != live && !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b scope) int { return cmp.Compare(a.differences(live), b.differences(live)) })
	return all
}

// cookieDomains returns possible domains of the cookies of host: none (host-only), the configured one, the registrable one, the one right
// above the host, and the host. Browsers accept no cookie for a public suffix, and only host-only ones for an IP address.
func cookieDomains(host, configured string) []string {
	domains := []string{""}
	host = strings.ToLower(host)
	registrable, err := publicsuffix.EffectiveTLDPlusOne(host)
	if _, notIP := netip.ParseAddr(host); err != nil || notIP == nil {
		return domains
	}
	_, above, _ := strings.Cut(host, ".")
	for _, domain := range []string{configured, registrable, above, host} {
		if isWithin(host, domain) && isWithin(domain, registrable) && !slices.Contains(domains, domain) {
			domains = append(domains, domain)
		}
	}
	return domains
}

// isWithin reports whether name is domain or below it.
func isWithin(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }
