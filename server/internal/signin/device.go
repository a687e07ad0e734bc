package signin

import (
	"context"
	"net/netip"
	"strings"
	"unicode"

	"worldevents/server/internal/observe"
)

// maxDevice is the length of a device's label, in code points.
const maxDevice = 60

// product is what a User-Agent says of a browser or a system, and what people call it.
type product struct{ mark, name string }

// Most browsers also claim to be those below them, and most systems to be the last. A browser that is not listed is
// taken for one that it claims to be.
var (
	browsers = []product{
		{"Edg/", "Edge"}, {"EdgA/", "Edge"}, {"EdgiOS/", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser/", "Samsung Internet"},
		{"Firefox/", "Firefox"}, {"FxiOS/", "Firefox"}, {"CriOS/", "Chrome"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"},
	}
	systems = []product{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"CrOS", "ChromeOS"},
		{"Macintosh", "macOS"}, {"Linux", "Linux"},
	}
)

// deviceLabel is what people know a device by, at most maxDevice code points: "Firefox on Linux". For what is no known
// browser it is the beginning of the User-Agent (RFC 9110 section 10.1.5). Nobody vouches for either.
func deviceLabel(userAgent string) string {
	if strings.HasPrefix(userAgent, "Mozilla/") { // as all browsers claim to be
		browser, system := nameIn(userAgent, browsers), nameIn(userAgent, systems)
		switch {
		case browser != "" && system != "":
			return browser + " on " + system
		case browser != "" || system != "":
			return browser + system
		}
	}
	return printable(userAgent)
}

// nameIn returns the name of the first product that the User-Agent mentions, or "".
func nameIn(userAgent string, products []product) string {
	for _, p := range products {
		if strings.Contains(userAgent, p.mark) {
			return p.name
		}
	}
	return ""
}

// printable returns the beginning of a text with a space for all that is invisible, as marks that turn the direction of
// writing are.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	runes := []rune(strings.TrimSpace(text))
	return strings.TrimSpace(string(runes[:min(len(runes), maxDevice)]))
}

// origin is what a user will know a session by: the device, and the network of the client, no more of its address than
// that (/24 of IPv4, /48 of IPv6).
func origin(ctx context.Context) (device, network string) {
	req := observe.FromContext(ctx)
	if req == nil {
		return "command line", ""
	}
	return deviceLabel(req.HTTP.UserAgent()), networkOf(req.Client())
}

// networkOf returns the network of an address, or "" for a text that is none.
func networkOf(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	bits := 48
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		bits = 24
	}
	prefix, err := ip.Prefix(bits)
	if err != nil {
		return ""
	}
	return prefix.String()
}
