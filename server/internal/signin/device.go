package signin

import (
	"context"
	"net/netip"
	"strings"

	"worldevents/server/internal/observe"
)

// product is a word of a User-Agent (RFC 9110 section 10.1.5), and the common name of that browser or system.
type product struct{ word, name string }

// Most browsers claim to be those below them, and most systems the last, so an unlisted browser is taken for one of these.
var (
	browsers = []product{
		{"Edg", "Edge"}, {"OPR/", "Opera"}, {"SamsungBrowser", "Samsung Internet"}, {"Firefox", "Firefox"}, {"FxiOS", "Firefox"},
		{"Chrome", "Chrome"}, {"CriOS", "Chrome"}, {"Safari", "Safari"},
	}
	systems = []product{
		{"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Android", "Android"}, {"Windows", "Windows"}, {"CrOS", "ChromeOS"},
		{"Macintosh", "macOS"}, {"Linux", "Linux"},
	}
)

// deviceLabel returns an unverified name such as "Firefox on Linux", or "" for an unlisted program.
func deviceLabel(userAgent string) string {
	browser, system := nameIn(userAgent, browsers), nameIn(userAgent, systems)
	if browser != "" && system != "" {
		return browser + " on " + system
	}
	return browser + system
}

func nameIn(userAgent string, products []product) string {
	for _, p := range products {
		if strings.Contains(userAgent, p.word) {
			return p.name
		}
	}
	return ""
}

// origin returns the device and network of a new session for its user. The network is a /24 of IPv4 or a /48 of IPv6.
func origin(ctx context.Context) (device, network string) {
	req := observe.FromContext(ctx)
	if req == nil {
		return "command line", ""
	}
	return deviceLabel(req.HTTP.UserAgent()), networkOf(req.Client())
}

// networkOf returns the network of an address, or "".
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
