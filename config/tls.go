package config

import (
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// hsts is what HSTS may say (RFC 6797 section 6.1, and the directive preload of browsers' lists).
var hsts = regexp.MustCompile(`(?i)^max-age=[0-9]{1,10}( *; *(includeSubDomains|preload))*$`)

// dnsLabel is a label of the name of a host that a certificate can be for (RFC 1123 section 2.1).
var dnsLabel = regexp.MustCompile(`(?i)^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checkTLS looks at the settings of TLS. checkBaseURL comes before it.
func (c *Config) checkTLS(found *faults) {
	if !slices.Contains([]string{"off", "acme", "files"}, c.TLS) {
		found.add("TLS", "must be off, acme or files")
		return
	}
	found.require("HSTS", c.HSTS == "" || hsts.MatchString(c.HSTS), "must be max-age=SECONDS, and perhaps ; includeSubDomains and ; preload, or empty")
	if c.HTTPAddr != "" {
		if _, port, err := net.SplitHostPort(c.HTTPAddr); err != nil {
			found.add("HTTP_ADDR", "must be host:port, :port or empty")
		} else if _, err := net.LookupPort("tcp", port); err != nil {
			found.add("HTTP_ADDR", "must end with a port, 0 to 65535")
		}
		found.require("HTTP_ADDR", c.TLS != "off", "needs TLS=acme or TLS=files, since it redirects to the public listener")
	}
	directory, err := url.Parse(c.ACMEDirectory)
	found.require("ACME_DIRECTORY", c.ACMEDirectory == "" || err == nil && directory.Scheme == "https" && isHTTPURL(directory), "must be an https address") // RFC 8555 section 6.1
	if c.TLS == "off" || c.Base == nil {
		return
	}
	if c.Base.Scheme != "https" {
		found.add("BASE_URL", "must be https with TLS=%s", c.TLS)
	} else if c.TLS == "acme" && !isDNSName(c.Base.Hostname()) {
		found.add("BASE_URL", "must have the full DNS name of a host with TLS=acme, such as https://api.example.org: no other gets a certificate")
	}
}

// isDNSName reports whether an authority may give a certificate for host: a name of two labels or more, none of which names
// this machine or an address.
func isDNSName(host string) bool {
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if !dnsLabel.MatchString(label) {
			return false
		}
	}
	last := labels[len(labels)-1]
	return len(labels) > 1 && len(host) <= 253 && !isLoopback(host) && strings.Trim(last, "0123456789") != ""
}
