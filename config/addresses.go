package config

import (
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// hostName is a name in DNS, or a label of one, such as containers have.
var hostName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$`)

// checkListeners finds out where to listen, and looks at the operator's listener.
func (c *Config) checkListeners(found *faults) {
	if err := c.listener(); err != nil {
		found.add("LISTEN_ADDR", "%v", err)
	}
	found.require("ADMIN_ADDR", c.AdminAddr == "" || isAddress(c.AdminAddr), "must be host:port, :port or empty, with a port of 0 to 65535")
	for _, host := range c.AdminHosts {
		found.require("ADMIN_HOSTS", hostName.MatchString(host), "%q must be a host name without port", host)
	}
}

// isAddress reports whether text is host:port or :port.
func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	return err == nil
}

// listener finds out where to listen. The host localhost is both loopback addresses (RFC 6761 section 6.3), since browsers try
// either. In development these are the default: there anybody who reaches the service signs in as anybody.
func (c *Config) listener() error {
	c.ListenAddrs = []string{c.ListenAddr}
	host, text, err := net.SplitHostPort(c.ListenAddr)
	if err != nil {
		return errors.New("must be host:port or :port")
	}
	port, err := net.LookupPort("tcp", text)
	if err != nil {
		return errors.New("must end with a port, 0 to 65535")
	}
	if host == "localhost" || c.Development && c.given["LISTEN_ADDR"] == "" {
		c.ListenAddrs = []string{net.JoinHostPort("127.0.0.1", text), net.JoinHostPort("::1", text)}
	}
	c.UsePort(port)
	return nil
}

// UsePort makes port, of the public listener, that of the default of BASE_URL. It changes nothing in production, nor
// where BASE_URL is set.
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

// checkBaseURL fills in Base. It stays nil if BASE_URL is no address.
func (c *Config) checkBaseURL(found *faults) {
	var err error
	if c.Base, err = url.Parse(c.BaseURL); err != nil || !isHTTPURL(c.Base) || c.Base.RawQuery != "" || c.Base.Fragment != "" ||
		strings.ContainsAny(c.BaseURL, ";, \"<>") {
		found.add("BASE_URL", "must be an http or https address without a query")
		c.Base = nil
	} else if c.Development && !c.DevelopmentPublic && !isLoopback(c.Base.Hostname()) {
		found.add("BASE_URL", "must be on localhost in development, where anybody signs in as anybody, unless DEVELOPMENT_PUBLIC=true")
	}
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

func isHTTPURL(u *url.URL) bool {
	return (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil
}
