package config

import (
	"math"
	"net/netip"
)

// proxies fills in Proxies.
func (c *Config) proxies() []check {
	isNetwork := func(text string) bool {
		prefix, err := netip.ParsePrefix(text)
		if err == nil {
			c.Proxies = append(c.Proxies, unmap(prefix))
		}
		return err == nil
	}
	return append(each("TRUSTED_PROXIES", c.TrustedProxies, isNetwork, "must be a network such as 10.0.0.0/8"), check{"TRUSTED_PROXIES", !tooWide(c.Proxies),
		"trusts a sixteenth of all addresses or more, so that clients choose the address they come from: list the networks of the proxies"})
}

// unmap spells a network of IPv4 addresses that are mapped into IPv6 (RFC 4291 section 2.5.5.2) as one of IPv4, which is
// what package net takes it for.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() {
		return netip.PrefixFrom(p.Addr().Unmap(), max(p.Bits()-96, 0))
	}
	return p
}

// tooWide reports whether networks hold a sixteenth of all IPv4 or of all IPv6 addresses. All private networks are less,
// all public addresses of either kind are more.
func tooWide(networks []netip.Prefix) bool {
	var shares [2]float64 // of IPv4 and of IPv6
	for _, p := range networks {
		shares[p.Addr().BitLen()/128] += math.Ldexp(1, -p.Bits())
	}
	return max(shares[0], shares[1]) >= 1./16
}
