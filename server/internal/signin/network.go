package signin

import (
	"fmt"
	"net/netip"
)

// networkInWords describes a result of networkOf for people. here is the network of their own session, or "" to describe that.
func networkInWords(network, here string) string {
	prefix, err := netip.ParsePrefix(network)
	if err != nil { // a command has begun the session
		return ""
	}
	start := prefix.Addr()
	groups := start.As16()
	beginning := fmt.Sprintf("%x:%x:%x:…", uint16(groups[0])<<8|uint16(groups[1]), uint16(groups[2])<<8|uint16(groups[3]), uint16(groups[4])<<8|uint16(groups[5]))
	if start.Is4() {
		beginning = fmt.Sprintf("%d.%d.%d.…", groups[12], groups[13], groups[14])
	}
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
