package server

import (
	"context"
	"net/netip"
)

// origin is what a user will know a session by: the device, and the network of the client, no more of its address than
// that (/24 of IPv4, /48 of IPv6).
func (s *Server) origin(ctx context.Context) (device, network string) {
	req := requestFrom(ctx)
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
