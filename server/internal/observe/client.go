package observe

import (
	"net"
	"net/netip"

	"github.com/labstack/echo/v4"
)

// Client returns the client's address: the connection's, or that of X-Forwarded-For from trusted proxies.
func (req *Request) Client() string {
	if req.client == "" {
		req.client = req.observer.clientIP(req.HTTP)
	}
	return req.client
}

// ClientNetwork identifies a client by its address, or by its /64 of IPv6, within which a client can choose any address.
func (req *Request) ClientNetwork() string {
	address := req.Client()
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		prefix, _ := ip.WithZone("").Prefix(64)
		return prefix.String()
	}
	return address
}

func clientIP(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, prefix := range trusted {
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP:   prefix.Addr().AsSlice(),
			Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}
