package config

import (
	"math"
	"net"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// hostName is a name in DNS, or a label of one, such as containers have.
	hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)
	// dnsName is the name of a host that a certificate can be for (RFC 1123 section 2.1), in two labels or more.
	dnsName = regexp.MustCompile(`(?i)^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// hsts is what HSTS may say (RFC 6797 section 6.1, and the directive preload of browsers' lists).
	hsts = regexp.MustCompile(`(?i)^max-age=[0-9]{1,10}( *; *(includeSubDomains|preload))*$`)
)

const noPort = "must end with a port, 0 to 65535"

// listeners fills in ListenAddrs. The host localhost is both loopback addresses (RFC 6761 section 6.3), since browsers try either. In
// development these are the default: whoever reaches the service signs in as anybody.
func (c *Config) listeners() []check {
	c.ListenAddrs = []string{c.ListenAddr}
	host, text, noAddress := net.SplitHostPort(c.ListenAddr)
	port, err := net.LookupPort("tcp", text) // 0 for ""
	if noAddress == nil && err == nil {
		if host == "localhost" || c.Development && c.given["LISTEN_ADDR"] == "" {
			c.ListenAddrs = []string{net.JoinHostPort("127.0.0.1", text), net.JoinHostPort("::1", text)}
		}
		c.UsePort(port)
	}
	return append([]check{
		{"LISTEN_ADDR", noAddress == nil, "must be host:port or :port"},
		{"LISTEN_ADDR", err == nil, noPort},
		{"ADMIN_ADDR", c.AdminAddr == "" || isAddress(c.AdminAddr), "must be host:port, :port or empty, with a port of 0 to 65535"},
	}, each("ADMIN_HOSTS", c.AdminHosts, hostName.MatchString, "must be a host name without port")...)
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// UsePort gives the default of BASE_URL the port of the public listener, in development alone.
func (c *Config) UsePort(port int) {
	if !c.Development || c.given["BASE_URL"] != "" {
		return
	}
	scheme, usual := "http", 80
	if c.TLS != "off" {
		scheme, usual = "https", 443
	}
	c.BaseURL = scheme + "://localhost"
	if port != usual {
		c.BaseURL += ":" + strconv.Itoa(port)
	}
	c.Base, _ = url.Parse(c.BaseURL)
}

// baseURL fills in Base, which stays nil for what is no address.
func (c *Config) baseURL() []check {
	c.Base = parseHTTPURL(c.BaseURL)
	if strings.ContainsAny(c.BaseURL, ";, \"<>") {
		c.Base = nil
	}
	return []check{
		{"BASE_URL", c.Base != nil, "must be an http or https address without a query"},
		{"BASE_URL", c.Base == nil || !c.Development || c.DevelopmentPublic || isLoopback(c.Base.Hostname()),
			"must be on localhost in development, where anybody signs in as anybody, unless DEVELOPMENT_PUBLIC=true"},
	}
}

// tls comes after baseURL.
func (c *Config) tls() []check {
	_, port, noAddress := net.SplitHostPort(c.HTTPAddr)
	_, err := net.LookupPort("tcp", port)
	directory, invalid := url.Parse(c.ACMEDirectory)
	speaks := c.Base != nil && (c.TLS == "acme" || c.TLS == "files")
	return []check{
		{"TLS", slices.Contains([]string{"off", "acme", "files"}, c.TLS), "must be off, acme or files"},
		{"HSTS", c.HSTS == "" || hsts.MatchString(c.HSTS), "must be max-age=SECONDS, and perhaps ; includeSubDomains and ; preload, or empty"},
		{"HTTP_ADDR", c.HTTPAddr == "" || noAddress == nil, "must be host:port, :port or empty"},
		{"HTTP_ADDR", err == nil, noPort},
		{"HTTP_ADDR", c.HTTPAddr == "" || c.TLS != "off", "needs TLS=acme or TLS=files, since it redirects to the public listener"},
		{"ACME_DIRECTORY", c.ACMEDirectory == "" || invalid == nil && directory.Scheme == "https" && directory.Hostname() != "" && directory.User == nil,
			"must be an https address"}, // RFC 8555 section 6.1
		{"TLS_DIR", c.TLS != "acme" || isOwnFolder(c.TLSDir), "must be a folder that others cannot write: chmod 700"},
		{"BASE_URL", !speaks || c.Base.Scheme == "https", "must be https with TLS=" + c.TLS},
		{"BASE_URL", !speaks || c.TLS != "acme" || c.Base.Scheme != "https" || isDNSName(c.Base.Hostname()),
			"must have the full DNS name of a host with TLS=acme, such as https://api.example.org: no other gets a certificate"},
	}
}

// isOwnFolder reports whether nobody else can write a folder. One that does not exist will be made.
func isOwnFolder(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.IsDir() && info.Mode().Perm()&0o022 == 0
}

// isDNSName reports whether an authority may issue a certificate for host: it names neither this machine nor an address.
func isDNSName(host string) bool {
	last := host[strings.LastIndex(host, ".")+1:]
	return dnsName.MatchString(host) && len(host) <= 253 && !isLoopback(host) && strings.Trim(last, "0123456789") != ""
}

// isLoopback reports whether browsers take host for this machine (RFC 6761 section 6.3).
func isLoopback(host string) bool {
	host = strings.ToLower(host)
	return IsLocal(host) || strings.HasSuffix(host, ".localhost")
}

// IsLocal reports whether host is localhost or a loopback address.
func IsLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// proxies fills in Proxies.
func (c *Config) proxies() []check {
	isNetwork := func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		if err != nil || prefix.Addr().Is4In6() { // a mapped address of IPv4 would count as one of IPv6
			return false
		}
		c.Proxies = append(c.Proxies, prefix)
		return true
	}
	return append(each("TRUSTED_PROXIES", c.TrustedProxies, isNetwork, "must be a network such as 10.0.0.0/8"), check{"TRUSTED_PROXIES", !tooWide(c.Proxies),
		"trusts a sixteenth of all addresses or more, so that clients choose the address they come from: list the networks of the proxies"})
}

// tooWide reports whether networks have a sixteenth of all IPv4 or IPv6 addresses. All private networks are less, all public ones more.
func tooWide(networks []netip.Prefix) bool {
	var shares [2]float64 // of IPv4 and of IPv6
	for _, p := range networks {
		shares[p.Addr().BitLen()/128] += math.Ldexp(1, -p.Bits())
	}
	return max(shares[0], shares[1]) >= 1./16
}

// parseHTTPURL returns nil for anything but an address of http or https without user, query and fragment.
func parseHTTPURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil
	}
	return u
}
