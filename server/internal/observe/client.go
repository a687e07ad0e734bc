package observe

import (
	"net"
	"net/http"
	"net/netip"
	"slices"

	"github.com/labstack/echo/v4"
)

// Client returns the address of the request's client: the connection's, or what trusted proxies say.
func (req *Request) Client() string {
	if req.client == "" {
		req.client = req.observer.clientIP(req.HTTP)
	}
	return req.client
}

// ClientNetwork returns what counts as one client: the address, but the /64 of an IPv6 address, since a client can choose
// among all addresses of that.
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

// isFromProxy reports whether a trusted proxy has sent the request.
func (o *Observer) isFromProxy(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return false
	}
	address := peer.Addr().Unmap().WithZone("")
	return slices.ContainsFunc(o.TrustedProxies, func(proxy netip.Prefix) bool { return proxy.Contains(address) })
}
