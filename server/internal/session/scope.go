package session

import (
	"cmp"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// scope is what identifies a cookie besides its name: a browser keeps one cookie for each scope (RFC 6265bis section
// 5.7, and CHIPS for partitioned), and a line of one scope leaves the cookies of others alone.
type scope struct {
	domain      string // empty for a host-only cookie
	path        string
	partitioned bool
}

// differences counts the settings that turn s into the other scope.
func (s scope) differences(other scope) (n int) {
	for _, same := range []bool{s.domain == other.domain, s.path == other.path, s.partitioned == other.partitioned} {
		if !same {
			n++
		}
	}
	return n
}

// cookie returns a cookie of the scope, without a value. A negative maxAge expires it.
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

// attributes returns what follows the value of either cookie. It is made once: a refresh is a hot path.
func attributes(c *http.Cookie) string { return strings.TrimPrefix(c.String(), tokenCookie+"=") }

// liveScope is where this configuration keeps both cookies.
func liveScope(o Options) scope {
	return scope{strings.ToLower(strings.TrimPrefix(o.CookieDomain, ".")), o.CookiePath, o.CookiePartitioned}
}

const (
	// maxStaleScopes keeps a response at 16 cookies: two for each of these, the two live ones, and the one of a sign-in
	// at the provider that ends.
	maxStaleScopes = 6
	// maxStaleBytes keeps the cookies of a response at 3 KB, the live ones of the longest username included.
	maxStaleBytes = 1536
)

// staleAttributes returns what expires a cookie that an earlier configuration has left, for each of the likeliest scopes.
// The live scope is none of them.
//
// An operator changes one setting at a time, so the scopes that differ from the live one in the fewest settings come
// first. Between equals a change of the domain comes before one of the path, and that before one of Partitioned.
func staleAttributes(o Options) (all []string) {
	size := 0
	for _, s := range staleScopes(o) {
		cookie := s.cookie(o.Development, -1)
		if cookie.Valid() != nil { // net/http would leave an attribute out, and so expire a cookie of another scope
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

// staleScopes returns every scope that an earlier configuration can have had, the likeliest first.
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

// cookieDomains returns the domains that the cookies of host can have had: none (host-only), the configured one, and
// those that were likely configured before, which are the registrable domain, the one right above the host, and the
// host. A public suffix and an IP address are never among them: browsers take no cookie for the one, and none but
// host-only cookies for the other.
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
