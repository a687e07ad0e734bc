package signin

import "net/netip"

// networkInWords describes a result of networkOf for people. here is the network of their own session, or "" to describe that.
func networkInWords(network, here string) string {
	prefix, err := netip.ParsePrefix(network)
	if err != nil { // a command has begun the session
		return ""
	}
	start := prefix.Addr()
	text := start.String() // such as 203.0.113.0 or 2001:db8:1::
	beginning := text[:len(text)-1] + "…"
	switch {
	case network == here:
		return "The same as this device"
	case start.IsLoopback(), prefix.Contains(netip.IPv6Loopback()):
		return "The computer of this service"
	case start.IsPrivate(), start.IsLinkLocalUnicast(): // RFC 1918, RFC 4193, RFC 3927, RFC 4291 section 2.5.6
		return "Local network, " + beginning
	}
	return "IP address " + beginning
}
