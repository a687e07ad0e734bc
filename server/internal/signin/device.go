package signin

import (
	"context"
	"net/netip"
	"strings"

	"worldevents/server/internal/observe"
)

// product is a word of a User-Agent (RFC 9110 section 10.1.5), and what people call the browser or system that sends it.
type product struct{ word, name string }

// Most browsers also claim to be those below them, and most systems to be the last. A browser that is not listed is
// taken for one that it claims to be.
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

// deviceLabel is what people know a device by, "Firefox on Linux", or "" for a program that is not listed. Nobody vouches for it.
func deviceLabel(userAgent string) string {
	browser, system := nameIn(userAgent, browsers), nameIn(userAgent, systems)
	if browser != "" && system != "" {
		return browser + " on " + system
	}
	return browser + system
}

// nameIn returns the name of the first product whose word the User-Agent has, or "".
func nameIn(userAgent string, products []product) string {
	for _, p := range products {
		if strings.Contains(userAgent, p.word) {
			return p.name
		}
	}
	return ""
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
